//! Surveys as Server-Sent Events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde_json::json;

use crate::Console;

/// Keeps proxies from closing a connection while the store does not answer.
const ALIVE: Duration = Duration::from_secs(15);

/// Each viewer gets the latest survey when it has taken the one before: one that is slow misses some, and keeps no more
/// than one.
pub(crate) async fn events(
    State(console): State<Arc<Console>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let view = console.surveys.view();
    let events = stream::unfold(view, |mut view| async move {
        loop {
            view.latest.changed().await.ok()?;
            let Some(shown) = view.latest.borrow_and_update().clone() else { continue };
            let event = match shown {
                Ok(json) => Event::default().event("survey").data(&*json),
                Err(error) => {
                    Event::default().event("failed").data(json!({ "error": &*error }).to_string())
                }
            };
            return Some((Ok(event), view));
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE))
}
