//! Answering surveys.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::SurveyedProcess;
use super::wire::{Answer, Request, channel};
use crate::acquire::Engine;
use crate::opaque::opaque_debug;
use crate::store::Listening;

/// The least time between two answers: four a second.
const PAUSE: Duration = Duration::from_millis(250);

/// How long an answer may be put off: a survey that looks twice, or two that are made at once, miss no client.
const LONGEST_DELAY: Duration = Duration::from_millis(750);

/// How many requests are known again.
const REMEMBERED: usize = 16;

/// How long the server may take for a part of an answer. No lock waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Has a client answer surveys until dropped.
pub(crate) struct Presence {
    _listening: Vec<Listening>,
}

impl Presence {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        namespace: Option<&str>,
        service: Option<&str>,
    ) -> Self {
        let client = Arc::new(SurveyedProcess::of(engine, service));
        // The channels share the turns: a client answers four times a second, wherever it is asked.
        let turns = Arc::default();
        let listen = |channel: String| {
            let answerer = Arc::new(Answerer {
                engine: Arc::downgrade(engine),
                client: Arc::clone(&client),
                channel: channel.clone(),
                turns: Arc::clone(&turns),
            });
            let on_message = Arc::new(move |message: &[u8]| answerer.heed(message));
            engine.leases.store.listen(&channel, on_message)
        };
        // Clients without a namespace ask all. A user that may use only the channels of its namespace is refused the other
        // one, and is asked by the clients of its namespace.
        let channels = [Some(channel(None)), namespace.map(|namespace| channel(Some(namespace)))];
        Self { _listening: channels.into_iter().flatten().map(listen).collect() }
    }
}

opaque_debug!(Presence);

struct Answerer {
    /// Weak: an answer does not keep a client.
    engine: Weak<Engine>,
    client: Arc<SurveyedProcess>,
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
        let channel = request.reply_channel(&self.channel);
        for part in Answer::of(&engine, &self.client, request).into_parts() {
            if let Err(error) = engine.leases.store.publish(&channel, &part, TIMEOUT).await {
                tracing::debug!(%error, "a survey is not answered");
                return;
            }
        }
    }
}
