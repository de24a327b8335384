//! Releases that the next master may not know of.
//!
//! A master replicates late, and one that sentinels replace goes on answering until the client learns of that, about a
//! second later. The next master does not know of the releases in between: it would keep each lock until its lease ends, and
//! each place in a fair queue until it counts as dead. So the client makes its last releases once more at the next master. An
//! owner id is used for one hold only, so that takes nothing from a later holder.
// S-4, S-19.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{CallError, Connection, Link, PING_TIMEOUT};
use crate::store::redis::endpoint::sentinel::Master;
use crate::store::redis::scripts::ScriptCall;
use crate::store::redis::server::short_limit;

/// Longer than sentinels take to tell of a promotion: they ask the promoted server each second.
const REMEMBERED: Duration = Duration::from_secs(3);

/// The maximum number of releases, some 2 MB.
const MOST: usize = 10_000;

/// Makes the call of a release once more, so long after it was answered.
pub(crate) type ReleaseAgain = Box<dyn Fn(Duration) -> ScriptCall + Send>;

/// What was released last, and the master that knows of it.
#[derive(Default)]
pub(super) struct LastReleases(Mutex<Last>);

#[derive(Default)]
struct Last {
    releases: VecDeque<(Instant, ReleaseAgain)>,
    master: Option<Master>,
}

impl Link {
    /// Remembers a release that a master has just answered.
    pub(crate) fn remember(&self, again: ReleaseAgain) {
        let (now, mut last) = (Instant::now(), self.last_releases.0.lock());
        let releases = &mut last.releases;
        let is_old = |answered: &Instant| *answered + REMEMBERED < now;
        while releases.len() >= MOST || releases.front().is_some_and(|(at, _)| is_old(at)) {
            releases.pop_front();
        }
        releases.push_back((now, again));
    }

    /// Makes the last releases again if this connection is the first one to another master.
    pub(super) async fn release_again(&self, connection: &Connection) {
        let Some(master) = &connection.master else { return };
        let calls: Vec<ScriptCall> = {
            let mut last = self.last_releases.0.lock();
            if last.master.as_ref().is_none_or(|last| last.is_at(master)) {
                last.master = Some(master.clone());
                return;
            }
            last.releases.iter().map(|(at, again)| again(at.elapsed())).collect()
        };
        let deadline = Instant::now() + short_limit(PING_TIMEOUT);
        let released = join_all(calls.iter().map(|call| self.run(call, deadline))).await;
        // An error reply would be the same the next time.
        let is_answered =
            |answer: &Result<_, _>| matches!(answer, Ok(_) | Err(CallError::Server(..)));
        if released.iter().all(is_answered) {
            self.last_releases.0.lock().master = Some(master.clone());
        }
    }
}
