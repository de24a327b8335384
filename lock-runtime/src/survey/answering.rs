//! Answering surveys.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::local::Lines;
use super::wire::{Answer, Identity, Request};
use crate::acquire::Engine;
use crate::store::Listening;

/// How many requests a client answers in a second.
const ANSWERS_A_SECOND: usize = 4;

/// A client lists at most so many holds, and so many waits, whatever is asked for.
const MOST_LINES: usize = 10_000;

/// Has a client answer what is asked on `channel`, until the result is dropped.
pub(super) fn answer(engine: &Arc<Engine>, channel: &str, identity: Identity) -> Listening {
    let answerer = Arc::new(Answerer {
        engine: Arc::downgrade(engine),
        identity,
        channel: channel.to_owned(),
        last: Mutex::new([None; ANSWERS_A_SECOND]),
    });
    let on_message = Arc::new(move |message: &[u8]| answerer.heed(message));
    engine.leases.store.listen(channel, on_message)
}

struct Answerer {
    /// Weak: an answer does not keep a client.
    engine: Weak<Engine>,
    identity: Identity,
    channel: String,
    /// When the last answers were given, the oldest first.
    last: Mutex<[Option<Instant>; ANSWERS_A_SECOND]>,
}

impl Answerer {
    /// Runs where messages arrive, so it does no more than look and start a task.
    fn heed(self: &Arc<Self>, message: &[u8]) {
        let (Some(request), Ok(runtime)) = (Request::read(message), Handle::try_current()) else {
            return;
        };
        if self.may_answer(Instant::now()) {
            let this = Arc::clone(self);
            runtime.spawn(async move { this.answer(&request).await });
        }
    }

    /// False if enough has been answered in the last second.
    fn may_answer(&self, now: Instant) -> bool {
        let mut last = self.last.lock();
        let oldest = last[0];
        if oldest.is_some_and(|oldest| now.saturating_duration_since(oldest) < Duration::from_secs(1)) {
            return false;
        }
        last.rotate_left(1);
        last[ANSWERS_A_SECOND - 1] = Some(now);
        true
    }

    async fn answer(&self, request: &Request) {
        let Some(engine) = self.engine.upgrade() else { return };
        let limit = request.limit.min(MOST_LINES);
        let Lines { holds, waits, cut } = Lines::of(&engine, &request.prefix, limit);
        let (store, timeout) = (&engine.leases.store, engine.leases.timing.command_timeout);
        let channel = request.reply_channel(&self.channel);
        for part in Answer::parts(request.id, &self.identity, holds, waits, cut) {
            if let Err(error) = store.publish(&channel, &part, timeout).await {
                tracing::debug!(%error, "a survey is not answered");
                return;
            }
        }
    }
}
