//! Refusals and lock errors as tonic's `Status`, for responders and for handlers that lock by themselves.

use std::borrow::Borrow;

use lock_runtime::LockError;
use lock_runtime::policy::BusyStatus;
use tonic::{Code, Status};

use crate::http::answer::grpc;
use crate::http::answer::refusal::{HoldTimes, LogFields, Refusal, RefusalContext};

/// The status with which the layer answers gRPC requests: code, message and, if the client may send the
/// same request again, `grpc-retry-pushback-ms` in the metadata.
///
/// # Examples
///
/// A responder that adds metadata:
///
/// ```
/// use lock_tower::LockLayer;
/// use lock_tower::http::{RefusalResponder, ProblemDetails, Refusal};
/// use tonic::Status;
/// use tonic::metadata::MetadataValue;
///
/// let layer = LockLayer::http().key("{header.x-order}").responder(|refusal: &Refusal| {
///     if !refusal.is_grpc() {
///         return ProblemDetails.respond(refusal);
///     }
///     let mut status = Status::from(refusal);
///     let reason = MetadataValue::from_static(refusal.kind().name());
///     status.metadata_mut().insert("x-reason", reason);
///     status.into_http()
/// }).build()?;
/// # let _ = layer;
/// # Ok::<_, lock_tower::http::BuildError>(())
/// ```
impl From<&Refusal> for Status {
    fn from(refusal: &Refusal) -> Self {
        let code = Code::from_i32(i32::from(grpc::code(refusal)));
        let mut status = Self::new(code, grpc::message(refusal));
        if let Some(millis) = grpc::pushback_millis(refusal) {
            status.metadata_mut().insert(grpc::PUSHBACK, millis.into());
        }
        status
    }
}

/// Returns the status that the layer would send for this error, for handlers that lock by themselves.
///
/// The [codes](crate::http#answers) are the layer's. The message reveals no more than the layer's: the key
/// and the rest of the error go into the log. If the client may send the same call again,
/// `grpc-retry-pushback-ms` asks for one second, or for two if the store fails, plus up to a quarter of
/// random jitter.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, LockError, distributed_lock};
/// use lock_tower::http::status_of;
/// use tonic::{Code, Request, Response, Status};
///
/// struct Orders {
///     locks: LockClient,
/// }
///
/// impl Orders {
///     #[distributed_lock(key = "order:{id}", wait = none, client = self.locks)]
///     async fn charge(&self, id: u64) -> Result<u64, LockError> {
///         Ok(id * 100)
///     }
///
///     // As in the service's trait.
///     async fn pay(&self, request: Request<u64>) -> Result<Response<u64>, Status> {
///         let cents = self.charge(request.into_inner()).await.map_err(status_of)?;
///         Ok(Response::new(cents))
///     }
/// }
///
/// let orders = Orders { locks: LockClient::in_memory() };
/// assert_eq!(orders.pay(Request::new(42)).await?.into_inner(), 4200);
/// let _other = orders.locks.mutex("order:42").lock().await?;
/// let refused = orders.pay(Request::new(42)).await.unwrap_err();
/// assert_eq!(refused.code(), Code::Aborted);
/// assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn status_of(error: impl Borrow<LockError>) -> Status {
    let context = RefusalContext {
        busy: BusyStatus::Conflict,
        lease: None,
        times: &HoldTimes::default(),
        deadline: false,
        grpc: true,
        log: LogFields::default(),
    };
    Status::from(&context.lock_error(error.borrow()))
}

/// A [`Status`] into which a [`LockError`] converts, by [`status_of`]: the error type of an annotated
/// function that also returns statuses of its own.
///
/// `Status` itself cannot implement the conversion, because neither type belongs to this crate. `?` converts
/// either one into a `LockStatus`, and a `LockStatus` into a `Status`.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, distributed_lock};
/// use lock_tower::http::LockStatus;
/// use tonic::{Code, Request, Response, Status};
///
/// #[distributed_lock(key = "order:{request.get_ref()}", wait = "2s")]
/// async fn charge(request: Request<u64>) -> Result<Response<u64>, LockStatus> {
///     let cents = price(request.into_inner())?;
///     Ok(Response::new(cents))
/// }
///
/// fn price(id: u64) -> Result<u64, Status> {
///     id.checked_mul(100).ok_or_else(|| Status::not_found("no such order"))
/// }
///
/// // As in the service's trait.
/// async fn pay(request: Request<u64>) -> Result<Response<u64>, Status> {
///     Ok(charge(request).await?)
/// }
///
/// let locks = LockClient::in_memory();
/// assert_eq!(locks.scope(pay(Request::new(42))).await?.into_inner(), 4200);
/// let none = locks.scope(pay(Request::new(u64::MAX))).await.unwrap_err();
/// assert_eq!(none.code(), Code::NotFound);
/// let without_client = pay(Request::new(42)).await.unwrap_err();
/// assert_eq!(without_client.code(), Code::Internal);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct LockStatus(Status);

impl LockStatus {
    /// Returns the status.
    #[must_use]
    pub fn into_inner(self) -> Status {
        self.0
    }
}

impl From<LockError> for LockStatus {
    fn from(error: LockError) -> Self {
        Self(status_of(error))
    }
}

impl From<Status> for LockStatus {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl From<LockStatus> for Status {
    fn from(status: LockStatus) -> Self {
        status.0
    }
}
