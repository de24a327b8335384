//! What a failed lock becomes in the error type of the function: by `From`, or by `map_err = path`, for errors of other crates,
//! which cannot implement `From<LockError>` here.

use std::error::Error;
use std::io;
use std::num::ParseIntError;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use futures_util::stream::{self, Stream, StreamExt as _};
use lock_runtime::{LockClient, LockError, distributed_lock};
use tonic::Status;

/// As in the crate sqlx: an error of another crate, for which `From<LockError>` cannot be written here.
mod sqlx {
    #[derive(Debug)]
    pub enum Error {
        RowNotFound,
        Io(#[expect(dead_code, reason = "as in a user's program")] std::io::Error),
    }

    pub type Result<T, E = Error> = std::result::Result<T, E>;
}

fn in_sqlx(error: LockError) -> sqlx::Error {
    sqlx::Error::Io(io::Error::other(error))
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

fn gone(_: LockError) -> StatusCode {
    StatusCode::GONE
}

fn denied<'a>(_: LockError) -> Denied<'a> {
    Denied("busy")
}

fn word<'a>(_: LockError) -> &'a str {
    "busy"
}

#[derive(Debug)]
struct Denied<'a>(&'a str);

#[derive(Debug)]
enum PayError {
    Lock(LockError),
    Amount(#[expect(dead_code, reason = "as in a user's program")] ParseIntError),
}

impl PayError {
    fn locked(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<LockError> for PayError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<ParseIntError> for PayError {
    fn from(error: ParseIntError) -> Self {
        Self::Amount(error)
    }
}

type Paid<T = u64> = Result<T, PayError>;
type Loaded<T> = io::Result<T>;
type Boxed = Box<dyn Error + Send + Sync>;

/// A struct, and no future in spite of its name.
#[derive(Debug)]
struct OilFuture(u64);

async fn cached(id: u64) -> Result<u64, StatusCode> {
    Ok(id + 1)
}

fn is_busy<T>(outcome: &io::Result<T>) -> bool {
    let error = outcome.as_ref().err().and_then(|error| error.get_ref());
    error.and_then(|error| error.downcast_ref()).is_some_and(LockError::is_busy)
}

#[tokio::test]
async fn errors_are_made_of_a_failed_lock() {
    let client = LockClient::in_memory();
    outcomes! { client, "order:7";
        [key = "order:{id}", wait = none] (id: u64) -> Paid { Ok(id) } (7)
            => Ok(7), Err(PayError::Lock(LockError::Busy { .. })),
        [key = "order:{id}", wait = none] (id: u64) -> Paid { return Ok("x".parse()?) } (7)
            => Err(PayError::Amount(_)), Err(PayError::Lock(_)),
        [key = "order:{id}", wait = none] (id: u64) -> Result<u64, Boxed> { Ok("12".parse()?) } (7)
            => Ok(12), Err(_),
        [key = "order:{id}", wait = none] (id: u64) -> Result<OilFuture, PayError> { Ok(OilFuture(70)) } (7)
            => Ok(OilFuture(70)), Err(PayError::Lock(_)),
        [key = "order:{id}", wait = none, map_err = in_sqlx] (id: u64) -> sqlx::Result<u64> { Ok(id) } (7)
            => Ok(7), Err(sqlx::Error::Io(_)),
        [key = "order:{id}", wait = none, map_err = in_sqlx] (id: u64) -> sqlx::Result<u64> {
            Err(sqlx::Error::RowNotFound)
        } (7) => Err(sqlx::Error::RowNotFound), Err(sqlx::Error::Io(_)),
        [key = "order:{id}", wait = none, map_err = PayError::Lock] (id: u64) -> Result<u64, PayError> {
            Ok(id)
        } (7) => Ok(7), Err(PayError::Lock(LockError::Busy { .. })),
        [key = "order:{id}", on_busy = skip, map_err = code] (id: u64) -> Result<Option<u64>, StatusCode> {
            Ok(Some(id))
        } (7) => Ok(Some(7)), Ok(None),
        [key = "order:{id}", on_busy = fallback(cached), map_err = code] (id: u64) -> Result<u64, StatusCode> {
            Ok(id)
        } (7) => Ok(7), Ok(8),
        [key = "order:{name}", wait = none, map_err = denied] (name: &str) -> Result<(), Denied<'_>> {
            Err(Denied(name))
        } ("7") => Err(Denied("7")), Err(Denied("busy")),
        [key = "order:{name}", wait = none, map_err = word] (name: &str) -> Result<(), &str> { Err(name) } ("7")
            => Err("7"), Err("busy"),
        [key = "order:{id}", wait = none, map_err = code, guard = hold] (id: u64) -> Result<u64, StatusCode> {
            assert_eq!(hold.key().as_str(), "order:7");
            Ok(id)
        } (7) => Ok(7), Err(StatusCode::CONFLICT),
    }
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = status)]
async fn grpc(id: u64) -> Result<u64, Status> {
    if id == 0 {
        return Err(Status::not_found("no order"));
    }
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = io::Error::other)]
async fn by_the_path_of_a_generic_function(id: u64) -> Loaded<u64> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = none)]
async fn boxed_error(id: u64) -> Result<u64, Boxed> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
#[distributed_lock(key = "item:{id}", wait = none, map_err = gone)]
async fn stacked(id: u64) -> Result<u64, StatusCode> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
fn returns_a_future(id: u64) -> impl Future<Output = Result<u64, StatusCode>> + Send {
    std::future::ready(Ok(id))
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = code)]
fn plain(id: u64) -> Result<u64, StatusCode> {
    Ok(id)
}

#[distributed_lock(key = "pay")]
async fn item_of_a_stream<S: Stream + Unpin>(
    items: &mut S,
) -> Result<Option<<S as Stream>::Item>, PayError> {
    Ok(items.next().await)
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

#[distributed_lock(key = "cut", lease = "100ms", map_err = code)]
async fn loses_its_lock() -> Result<(), StatusCode> {
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(())
}

#[tokio::test]
async fn errors_keep_what_the_lock_says() -> Result<(), LockError> {
    assert_eq!(returns_a_future(7).await, Err(StatusCode::SERVICE_UNAVAILABLE), "without a client");
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert_eq!(grpc(7).await.ok(), Some(7));
            assert_eq!(grpc(0).await.unwrap_err().code(), tonic::Code::NotFound);
            assert_eq!(by_the_path_of_a_generic_function(7).await.ok(), Some(7));
            assert_eq!(stacked(7).await, Ok(7));
            let mut items = stream::iter([5, 6]);
            assert!(matches!(item_of_a_stream(&mut items).await, Ok(Some(5))));
            assert_eq!(loses_its_lock().await, Err(StatusCode::SERVICE_UNAVAILABLE));

            let held = client.mutex("order:7").lock().await?;
            assert_eq!(grpc(7).await.unwrap_err().code(), tonic::Code::Aborted);
            assert!(is_busy(&by_the_path_of_a_generic_function(7).await));
            assert!(boxed_error(7).await.unwrap_err().is::<LockError>());
            assert_eq!(stacked(7).await, Err(StatusCode::CONFLICT));
            assert_eq!(returns_a_future(7).await, Err(StatusCode::CONFLICT));
            assert!(matches!(Till.pay(7).await, Err(PayError::Lock(_))));
            assert_eq!(Till.of_a_method(7).await, Err("refused".to_owned()));
            held.release().await?;

            let held = client.mutex("item:7").lock().await?;
            assert_eq!(stacked(7).await, Err(StatusCode::GONE));
            held.release().await?;
            // An early way out gives the lock back, too.
            assert!(client.mutex("order:7").try_lock().await?.is_some());
            Ok(())
        })
        .await
}

#[test]
fn errors_of_plain_functions() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client.scope_blocking(|| {
        assert_eq!(plain(7), Ok(7));
        let held = client.mutex("order:7").blocking_lock()?;
        let elsewhere = client.clone();
        let busy = std::thread::spawn(move || elsewhere.scope_blocking(|| plain(7)));
        assert_eq!(busy.join().unwrap(), Err(StatusCode::CONFLICT));
        held.blocking_release()
    })
}
