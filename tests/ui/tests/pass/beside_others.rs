//! Beside the attributes and the errors of other crates.

use std::sync::{Arc, Once};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use eyre::WrapErr as _;
use lock_runtime::{LockClient, LockError, distributed_lock};
use tracing::Span;

/// The name of the span that is entered where this is called.
fn span() -> String {
    Span::current().metadata().map_or("none", |span| span.name()).to_owned()
}

/// For the whole process: a span that a thread without a subscriber meets first would stay off for all of them.
fn see_spans() {
    static SEEN: Once = Once::new();
    SEEN.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).expect("the first");
    });
}

/// Rows of `attributes (async fn) name { body }`: functions that say in which span their key is made, and in which they run.
macro_rules! spans {
    ($($(#[$attribute:meta])* ($($how:tt)*) $name:ident $body:block)*) => {$(
        $(#[$attribute])*
        $($how)* $name() -> Result<(String, String), LockError> $body
    )*};
}

spans! {
    // Written above, it expands first: its span is a part of the body.
    #[tracing::instrument(skip_all)]
    #[distributed_lock(key("seen-by:{}", span()), guard = hold)]
    (async fn) inside_the_lock { Ok((hold.key().to_string(), span())) }

    // Written below, it is expanded around the lock: its span has the wait, the body and the release.
    #[distributed_lock(key("seen-by:{}", span()), guard = hold)]
    #[tracing::instrument(skip_all, err)]
    (async fn) around_the_lock { Ok((hold.key().to_string(), span())) }

    #[tracing::instrument(skip_all, err)]
    #[distributed_lock(key("seen-by:{}", span()), guard = hold)]
    (fn) inside_on_a_thread { Ok((hold.key().to_string(), span())) }

    #[distributed_lock(key("seen-by:{}", span()), guard = hold)]
    #[tracing::instrument(skip_all, err)]
    (fn) around_on_a_thread { Ok((hold.key().to_string(), span())) }
}

fn answer(error: LockError) -> StatusCode {
    if error.is_busy() { StatusCode::CONFLICT } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[distributed_lock(key = "order:{id}", wait = none, map_err = answer, client = locks)]
#[axum::debug_handler]
async fn handler_below(
    State(locks): State<LockClient>,
    Path(id): Path<u64>,
) -> Result<String, StatusCode> {
    Ok(format!("paid {id}"))
}

/// All at once, as on a handler of a service.
#[axum::debug_handler]
#[distributed_lock(key("order:{}:{}", id, span()), map_err = answer, client = locks, guard = hold)]
#[tracing::instrument(skip_all, fields(id))]
async fn traced_handler(
    State(locks): State<Arc<LockClient>>,
    Path(id): Path<u64>,
) -> Result<String, StatusCode> {
    let _ = id;
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "import", wait = none)]
async fn with_anyhow(rows: &str) -> anyhow::Result<u64> {
    anyhow::ensure!(!rows.is_empty(), "nothing to import");
    Ok(rows.parse()?)
}

#[distributed_lock(key = "import", wait = none)]
async fn with_eyre(rows: &str) -> eyre::Result<u64> {
    rows.parse().wrap_err("not a number")
}

#[distributed_lock(key = "import", on_busy = skip)]
async fn skips_with_anyhow() -> anyhow::Result<Option<u64>> {
    Ok(Some(1))
}

#[tokio::test]
async fn spans_are_inside_of_the_lock_or_around_it() -> Result<(), LockError> {
    see_spans();
    let client = LockClient::in_memory();
    let inside = client.scope(inside_the_lock()).await?;
    assert_eq!(inside, ("seen-by:none".to_owned(), "inside_the_lock".to_owned()));
    let around = client.scope(around_the_lock()).await?;
    // The key is made outside of the lock; the body sees the span of the hold.
    assert_eq!(around, ("seen-by:around_the_lock".to_owned(), "lock.hold".to_owned()));
    Ok(())
}

#[test]
fn spans_on_a_thread() -> Result<(), LockError> {
    see_spans();
    let client = LockClient::in_memory();
    let inside = client.scope_blocking(inside_on_a_thread)?;
    assert_eq!(inside, ("seen-by:none".to_owned(), "inside_on_a_thread".to_owned()));
    assert_eq!(client.scope_blocking(around_on_a_thread)?.0, "seen-by:around_on_a_thread");
    Ok(())
}

#[tokio::test]
async fn handlers() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    let routes = axum::Router::new().route("/below/{id}", axum::routing::post(handler_below));
    let _: axum::Router = routes.with_state(client.clone());
    let locks = || State(client.clone());
    assert_eq!(handler_below(locks(), Path(7)).await.as_deref(), Ok("paid 7"));
    see_spans();
    let traced = traced_handler(State(Arc::new(client.clone())), Path(7)).await;
    assert_eq!(traced.as_deref(), Ok("order:7:traced_handler"));
    let held = client.mutex("order:7").lock().await?;
    assert_eq!(handler_below(locks(), Path(7)).await, Err(StatusCode::CONFLICT));
    held.release().await
}

#[tokio::test]
async fn errors_of_any_kind() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert_eq!(with_anyhow("3").await.ok(), Some(3));
            assert_eq!(with_eyre("3").await.ok(), Some(3));
            assert_eq!(with_anyhow("").await.unwrap_err().to_string(), "nothing to import");
            let held = client.mutex("import").lock().await?;
            let error = with_anyhow("3").await.unwrap_err();
            assert!(error.downcast_ref().is_some_and(LockError::is_busy), "{error}");
            let error = with_eyre("3").await.unwrap_err();
            assert!(error.downcast_ref().is_some_and(LockError::is_busy), "{error}");
            assert_eq!(skips_with_anyhow().await.ok(), Some(None));
            held.release().await
        })
        .await
}
