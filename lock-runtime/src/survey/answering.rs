//! Answering surveys.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::local::Lines;
use super::wire::{Answer, Identity, Request};
use crate::acquire::Engine;
use crate::store::Listening;

/// The least time between two answers: four a second.
const PAUSE: Duration = Duration::from_millis(250);

/// How long an answer may be put off: a survey that looks twice, or two that are made at once, miss no client.
const LONGEST_DELAY: Duration = Duration::from_millis(750);

/// How many requests are known again.
const REMEMBERED: usize = 16;

/// How long the server may take for a part of an answer. No lock waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client lists at most so many holds, and so many waits, whatever is asked for.
const MOST_LINES: usize = 10_000;

/// Has a client answer what is asked on these channels, until the result is dropped.
pub(super) fn answer(
    engine: &Arc<Engine>,
    channels: &[String],
    identity: &Identity,
) -> Vec<Listening> {
    // The channels share the turns: a client answers four times a second, wherever it is asked.
    let turns = Arc::default();
    let listen = |channel: &String| {
        let answerer = Arc::new(Answerer {
            engine: Arc::downgrade(engine),
            identity: identity.clone(),
            channel: channel.clone(),
            turns: Arc::clone(&turns),
        });
        let on_message = Arc::new(move |message: &[u8]| answerer.heed(message));
        engine.leases.store.listen(channel, on_message)
    };
    channels.iter().map(listen).collect()
}

struct Answerer {
    /// Weak: an answer does not keep a client.
    engine: Weak<Engine>,
    identity: Identity,
    channel: String,
    turns: Arc<Mutex<Turns>>,
}

#[derive(Default)]
struct Turns {
    /// When the last answer was given, or will be.
    last: Option<Instant>,
    /// The last requests that are or will be answered. Each server of a quorum delivers the same.
    requests: VecDeque<Uuid>,
}

impl Answerer {
    /// Runs where messages arrive, so it does no more than look and start a task.
    fn heed(self: &Arc<Self>, message: &[u8]) {
        let (Some(request), Ok(runtime)) = (Request::read(message), Handle::try_current()) else {
            return;
        };
        if let Some(time) = self.next_time(&request, Instant::now()) {
            let this = Arc::clone(self);
            runtime.spawn(async move {
                sleep_until(time).await;
                this.answer(&request).await;
            });
        }
    }

    /// When the request is answered. `None` if it is already, or if that is too late, so that a flood of requests leaves
    /// no queue.
    fn next_time(&self, request: &Request, now: Instant) -> Option<Instant> {
        let mut turns = self.turns.lock();
        let time = turns.last.map_or(now, |last| now.max(last + PAUSE));
        if time > now + LONGEST_DELAY || turns.requests.contains(&request.id) {
            return None;
        }
        turns.last = Some(time);
        turns.requests.push_back(request.id);
        if turns.requests.len() > REMEMBERED {
            turns.requests.pop_front();
        }
        Some(time)
    }

    async fn answer(&self, request: &Request) {
        let Some(engine) = self.engine.upgrade() else { return };
        let limit = request.limit.min(MOST_LINES);
        let Lines { holds, waits, cut } = Lines::of(&engine, &request.prefix, limit);
        let (store, timeout) = (&engine.leases.store, TIMEOUT);
        let channel = request.reply_channel(&self.channel);
        for part in Answer::parts(request.id, &self.identity, holds, waits, cut) {
            if let Err(error) = store.publish(&channel, &part, timeout).await {
                tracing::debug!(%error, "a survey is not answered");
                return;
            }
        }
    }
}
