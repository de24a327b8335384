//! `map_err = path`, for errors of other crates, which cannot implement `From<LockError>` here.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use lock_runtime::{LockClient, LockError, distributed_lock};
use tonic::Status;

/// As in the crate sqlx: an error of another crate, for which `From<LockError>` cannot be written here.
mod sqlx {
    #[derive(Debug)]
    pub enum Error {
        RowNotFound,
        Io(std::io::Error),
    }

    pub type Result<T, E = Error> = std::result::Result<T, E>;
}

fn in_sqlx(error: LockError) -> sqlx::Error {
    sqlx::Error::Io(io::Error::other(error))
}

#[distributed_lock(key = "row:{id}", wait = none, map_err = in_sqlx)]
async fn query(id: u64) -> sqlx::Result<u64> {
    if id == 0 {
        return Err(sqlx::Error::RowNotFound);
    }
    Ok(id)
}

fn status(error: LockError) -> Status {
    match error.is_busy() {
        true => Status::aborted(error.to_string()),
        false => Status::unavailable(error.to_string()),
    }
}

fn code(error: LockError) -> StatusCode {
    if error.is_busy() { StatusCode::CONFLICT } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = status)]
async fn grpc(id: u64) -> Result<u64, Status> {
    if id == 0 {
        return Err(Status::not_found("no order"));
    }
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code, guard = hold)]
async fn http(id: u64) -> Result<String, StatusCode> {
    Ok(hold.key().to_string())
}

type Loaded<T> = io::Result<T>;

#[distributed_lock(key = "order:{id}", wait = none, map_err = io::Error::other)]
async fn by_the_path_of_a_generic_function(id: u64) -> Loaded<u64> {
    Ok(id)
}

#[derive(Debug)]
enum PayError {
    Lock(LockError),
}

impl PayError {
    fn locked(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = PayError::Lock)]
async fn by_a_variant(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", on_busy = skip, map_err = code)]
async fn skips(id: u64) -> Result<Option<u64>, StatusCode> {
    Ok(Some(id))
}

#[distributed_lock(key = "order:{id}", on_busy = skip, map_err = code)]
async fn skips_nothing(id: u64) -> Result<(), StatusCode> {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "order:{id}", on_busy = fallback(cached), map_err = code)]
async fn falls_back(id: u64) -> Result<u64, StatusCode> {
    Ok(id)
}

async fn cached(id: u64) -> Result<u64, StatusCode> {
    Ok(id + 1)
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
#[distributed_lock(key = "item:{id}", wait = none, map_err = gone)]
async fn stacked(id: u64) -> Result<u64, StatusCode> {
    Ok(id)
}

struct Denied<'a>(&'a str);

fn denied<'a>(_: LockError) -> Denied<'a> {
    Denied("busy")
}

#[distributed_lock(key = "order:{name}", wait = none, map_err = denied)]
async fn borrows(name: &str) -> Result<(), Denied<'_>> {
    Err(Denied(name))
}

fn word<'a>(_: LockError) -> &'a str {
    "busy"
}

#[distributed_lock(key = "order:{name}", wait = none, map_err = word)]
async fn borrows_a_word(name: &str) -> Result<(), &str> {
    Err(name)
}

fn gone(_: LockError) -> StatusCode {
    StatusCode::GONE
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
fn returns_a_future(id: u64) -> impl Future<Output = Result<u64, StatusCode>> + Send {
    std::future::ready(Ok(id))
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
fn boxed(id: u64) -> BoxFuture<'static, Result<u64, StatusCode>> {
    Box::pin(std::future::ready(Ok(id)))
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
fn plain(id: u64) -> Result<u64, StatusCode> {
    Ok(id)
}

struct Till;

#[async_trait]
trait Pay {
    async fn pay(&self, id: u64) -> Result<u64, PayError>;
}

#[async_trait]
impl Pay for Till {
    #[distributed_lock(key = "order:{id}", wait = none, map_err = PayError::locked)]
    async fn pay(&self, id: u64) -> Result<u64, PayError> {
        Ok(id)
    }
}

impl Till {
    fn refused(_: LockError) -> String {
        "refused".to_owned()
    }

    #[distributed_lock(key = "order:{id}", wait = none, map_err = Self::refused)]
    async fn of_a_method(&self, id: u64) -> Result<u64, String> {
        Ok(id)
    }
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    assert_eq!(http(7).await, Err(StatusCode::SERVICE_UNAVAILABLE), "without a client");
    assert_eq!(skips(7).await, Err(StatusCode::SERVICE_UNAVAILABLE));
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert_eq!(grpc(7).await.ok(), Some(7));
            assert_eq!(grpc(0).await.unwrap_err().code(), tonic::Code::NotFound);
            assert_eq!(http(7).await.as_deref(), Ok("order:7"));
            assert_eq!(by_the_path_of_a_generic_function(7).await.ok(), Some(7));
            assert!(matches!(by_a_variant(7).await, Ok(7)));
            assert_eq!(skips(7).await, Ok(Some(7)));
            assert_eq!(query(7).await.ok(), Some(7));
            assert!(matches!(query(0).await, Err(sqlx::Error::RowNotFound)));
            let held = client.mutex("row:7").lock().await?;
            let Err(sqlx::Error::Io(error)) = query(7).await else { panic!("it is not locked") };
            let busy = error.get_ref().and_then(|inner| inner.downcast_ref::<LockError>());
            assert!(busy.is_some_and(LockError::is_busy), "{error}");
            held.release().await?;
            assert_eq!(falls_back(7).await, Ok(7));
            assert_eq!(stacked(7).await, Ok(7));

            let held = client.mutex("order:7").lock().await?;
            assert_eq!(grpc(7).await.unwrap_err().code(), tonic::Code::Aborted);
            assert_eq!(http(7).await, Err(StatusCode::CONFLICT));
            let error = by_the_path_of_a_generic_function(7).await.unwrap_err();
            assert!(error.get_ref().is_some_and(|inner| inner.is::<LockError>()), "{error}");
            let PayError::Lock(error) = by_a_variant(7).await.unwrap_err();
            assert!(error.is_busy());
            assert_eq!(skips(7).await, Ok(None));
            assert_eq!(skips_nothing(7).await, Ok(()));
            assert_eq!(falls_back(7).await, Ok(8));
            assert_eq!(stacked(7).await, Err(StatusCode::CONFLICT));
            assert_eq!(returns_a_future(7).await, Err(StatusCode::CONFLICT));
            assert_eq!(boxed(7).await, Err(StatusCode::CONFLICT));
            let Err(Denied(why)) = borrows("7").await else { panic!("it is not locked") };
            assert_eq!((why, borrows_a_word("7").await), ("busy", Err("busy")));
            assert!(matches!(Till.pay(7).await, Err(PayError::Lock(_))));
            assert_eq!(Till.of_a_method(7).await, Err("refused".to_owned()));
            held.release().await?;

            let held = client.mutex("item:7").lock().await?;
            assert_eq!(stacked(7).await, Err(StatusCode::GONE));
            held.release().await
        })
        .await
}

#[test]
fn runs_without_async() -> Result<(), LockError> {
    let client = lock_runtime::LockClient::in_memory();
    client.scope_blocking(|| {
        assert_eq!(plain(7), Ok(7));
        let held = client.mutex("order:7").blocking_lock()?;
        let elsewhere = client.clone();
        let busy = std::thread::spawn(move || elsewhere.scope_blocking(|| plain(7)));
        assert_eq!(busy.join().unwrap(), Err(StatusCode::CONFLICT));
        held.blocking_release()
    })
}

#[distributed_lock(key = "cut", lease = "100ms", map_err = code)]
async fn loses_its_lock() -> Result<(), StatusCode> {
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(())
}

#[tokio::test]
async fn a_loss_is_mapped() {
    let lost = LockClient::in_memory().scope(loses_its_lock()).await;
    assert_eq!(lost, Err(StatusCode::SERVICE_UNAVAILABLE));
}
