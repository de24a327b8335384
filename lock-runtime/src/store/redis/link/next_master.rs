//! Releases that the next master may not know of.
//!
//! A master replicates late, and one that sentinels replace goes on answering until the client learns of that, about a
//! second later. The next master does not know of the releases in between: it would keep each lock until its lease ends, and
//! each place in a fair queue until it counts as dead. So the client makes its last releases once more at the next master. That
//! takes nothing from a later holder: a hold that was released never gets its owner id again.
// S-4, S-19.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::spawn;
use tokio::time::{Instant, sleep};

use super::{CallError, Connection, Link, PING_TIMEOUT};
use crate::error::StoreError;
use crate::store::redis::endpoint::sentinel::Master;
use crate::store::redis::scripts::ScriptCall;
use crate::store::redis::server::short_limit;

/// Longer than sentinels take to tell of a promotion: they ask the promoted server each second.
const REMEMBERED: Duration = Duration::from_secs(3);

/// The maximum number of releases, some 2 MB.
const MOST: usize = 10_000;

/// For how long a master that refuses them is asked again: one that was just promoted may want replicas first.
const ASKED_FOR: Duration = Duration::from_secs(15);

/// First and longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Makes the call of a release once more, so long after the first.
pub(crate) type ReleaseAgain = Arc<dyn Fn(Duration) -> ScriptCall + Send + Sync>;

type SentAt = (Instant, ReleaseAgain);

/// What was released last, and the master that knows of it.
#[derive(Default)]
pub(super) struct LastReleases(Mutex<Last>);

#[derive(Default)]
struct Last {
    releases: VecDeque<SentAt>,
    master: Option<Master>,
}

impl Last {
    fn forget_old(&mut self, now: Instant) {
        let is_old = |(at, _): &SentAt| *at + REMEMBERED < now;
        while self.releases.front().is_some_and(is_old) {
            self.releases.pop_front();
        }
    }
}

impl Link {
    /// Remembers a release that is about to be sent. Not only once it is answered: a connection to the next master may be
    /// ready between the answer and the caller's next poll.
    pub(crate) fn remember(&self, again: ReleaseAgain) {
        let (now, mut last) = (Instant::now(), self.last_releases.0.lock());
        last.forget_old(now);
        if last.releases.len() >= MOST {
            last.releases.pop_front();
        }
        last.releases.push_back((now, again));
    }

    /// Makes the last releases again if this connection is the first one to another master. Those that it refuses for now
    /// are asked for again in the background.
    pub(super) async fn release_again(self: &Arc<Self>, connection: &Connection) {
        let Some(master) = &connection.master else { return };
        let releases: Vec<SentAt> = {
            let mut last = self.last_releases.0.lock();
            last.forget_old(Instant::now());
            let before = last.master.replace(master.clone());
            if before.is_none_or(|before| before.is_at(master)) {
                return;
            }
            last.releases.iter().cloned().collect()
        };
        let mut left = self.release_all(releases).await;
        if left.is_empty() {
            return;
        }
        let (link, until) = (Arc::downgrade(self), Instant::now() + ASKED_FOR);
        spawn(async move {
            let mut pause = FIRST_PAUSE;
            while !left.is_empty() && Instant::now() < until {
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
                let Some(link) = link.upgrade() else { return };
                left = link.release_all(left).await;
            }
        });
    }

    /// Returns those that may succeed later.
    async fn release_all(&self, releases: Vec<SentAt>) -> Vec<SentAt> {
        let deadline = Instant::now() + short_limit(PING_TIMEOUT);
        let release = async |(at, again): SentAt| {
            let answer = self.run(&again(at.elapsed()), deadline).await;
            may_succeed_later(answer.err()).then_some((at, again))
        };
        join_all(releases.into_iter().map(release)).await.into_iter().flatten().collect()
    }
}

/// False after an answer, and after an error reply that would be the same the next time.
fn may_succeed_later(error: Option<CallError>) -> bool {
    match error {
        None => false,
        Some(error @ CallError::Server(..)) => StoreError::from(error).kind().is_transient(),
        Some(_) => true,
    }
}
