//! Refusals and lock errors as tonic's `Status`, for responders and for handlers that lock by themselves.

use std::borrow::Borrow;

use lock_runtime::LockError;
use tonic::{Code, Status};

use crate::http::answer::grpc;
use crate::http::answer::response::LockResponse;

/// The status with which the layer answers gRPC requests: code, message and, if the client may send the
/// same request again, `grpc-retry-pushback-ms` in the metadata.
///
/// # Examples
///
/// A responder that adds metadata:
///
/// ```
/// use http::request::Parts;
/// use lock_tower::LockLayer;
/// use lock_tower::http::LockResponse;
/// use tonic::Status;
/// use tonic::metadata::MetadataValue;
///
/// let layer = LockLayer::http().key("{header.x-order}").responder(|refusal: LockResponse, _: &Parts| {
///     if !refusal.is_grpc() {
///         return refusal.into_http();
///     }
///     let mut status = Status::from(&refusal);
///     let reason = MetadataValue::from_static(refusal.kind().name());
///     status.metadata_mut().insert("x-reason", reason);
///     status.into_http()
/// }).build()?;
/// # let _ = layer;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
impl From<&LockResponse> for Status {
    fn from(refusal: &LockResponse) -> Self {
        let code = Code::from_i32(i32::from(grpc::code(refusal)));
        let mut status = Self::new(code, grpc::message(refusal));
        if let Some(millis) = grpc::pushback_millis(refusal) {
            status.metadata_mut().insert(grpc::PUSHBACK, millis.into());
        }
        status
    }
}

/// Returns the status that the layer would send for this error, for handlers that lock by themselves. It is the function
/// for `map_err = status_of` of an annotated function that returns statuses.
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
/// use lock_runtime::{LockClient, distributed_lock};
/// use lock_tower::http::status_of;
/// use tonic::{Code, Request, Response, Status};
///
/// struct Orders {
///     locks: LockClient,
/// }
///
/// impl Orders {
///     // As in the service's trait.
///     #[distributed_lock(
///         key = "order:{request.get_ref()}",
///         wait = none,
///         client = self.locks,
///         map_err = status_of
///     )]
///     async fn pay(&self, request: Request<u64>) -> Result<Response<u64>, Status> {
///         let cents = request.into_inner().checked_mul(100);
///         Ok(Response::new(cents.ok_or_else(|| Status::not_found("no such order"))?))
///     }
/// }
///
/// let orders = Orders { locks: LockClient::in_memory() };
/// assert_eq!(orders.pay(Request::new(42)).await?.into_inner(), 4200);
/// let none = orders.pay(Request::new(u64::MAX)).await.unwrap_err();
/// assert_eq!(none.code(), Code::NotFound);
/// let _other = orders.locks.mutex("order:42").lock().await?;
/// let refused = orders.pay(Request::new(42)).await.unwrap_err();
/// assert_eq!(refused.code(), Code::Aborted);
/// assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn status_of(error: impl Borrow<LockError>) -> Status {
    Status::from(&LockResponse::from(error.borrow()))
}
