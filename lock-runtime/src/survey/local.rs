//! What this process says of itself: who it is, what it holds, and who waits in it.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::wire::{HoldLine, Identity, WaitLine};
use crate::acquire::Engine;
use crate::lease::Hold;
use crate::process::{executable, host_name};
use crate::waits::WaitEntry;

/// When the first client of this process was created, which is about when the process began; and the zero of the clock on which
/// waits are told apart.
static STARTED: LazyLock<(SystemTime, Instant)> =
    LazyLock::new(|| (SystemTime::now(), Instant::now()));

/// The holds and waits of a client.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) holds: Vec<HoldLine>,
    pub(super) waits: Vec<WaitLine>,
    /// True if the limit has left some out.
    pub(super) cut: bool,
}

impl Identity {
    /// A client of this process.
    pub(super) fn of(engine: &Engine, service: Option<&str>) -> Self {
        let started = STARTED.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: engine.leases.client,
            service: service.map_or_else(executable, str::to_owned),
            host: host_name(),
            pid: std::process::id(),
            started: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl Lines {
    /// What is held and waited for under names that begin with `prefix`, at most `limit` of each.
    pub(super) fn of(engine: &Engine, prefix: &str, limit: usize) -> Self {
        let mut lines = Self::default();
        for hold in engine.leases.watchdog.all() {
            lines.add_hold(&hold, prefix, limit);
        }
        let now = Instant::now();
        let mut add = |wait: &WaitEntry| lines.add_wait(wait, now, prefix, limit);
        engine.queues.visit_waits(&mut add);
        engine.waits.visit(&mut add);
        lines
    }

    fn add_hold(&mut self, hold: &Hold, prefix: &str, limit: usize) {
        let Some(now) = hold.check().ok().filter(|_| !hold.is_released()) else { return };
        let label = hold.recorder.label();
        for lock in hold.target.locks().filter(|lock| lock.key().as_str().starts_with(prefix)) {
            if self.holds.len() >= limit {
                self.cut = true;
                return;
            }
            self.holds.push(HoldLine {
                hold: hold.owner.pseudonym(),
                name: lock.key().to_string(),
                kind: lock.kind(),
                held_for: now.since(hold.taken_at),
                left: hold.deadline().since(now),
                site: label.call_site().map(|site| site.to_string()),
                policy: label.policy().map(str::to_owned),
            });
        }
    }

    fn add_wait(&mut self, wait: &WaitEntry, now: Instant, prefix: &str, limit: usize) {
        let WaitEntry { target, since, asker, place } = wait;
        let mut inside = Vec::new();
        if let Some(around) = &asker.around {
            around.visit(&mut |_, hold| inside.push(hold));
        }
        for lock in target.locks().filter(|lock| lock.key().as_str().starts_with(prefix)) {
            if self.waits.len() >= limit {
                self.cut = true;
                return;
            }
            let began = since.saturating_duration_since(STARTED.1).as_nanos();
            self.waits.push(WaitLine {
                began: u64::try_from(began).unwrap_or(u64::MAX),
                name: lock.key().to_string(),
                kind: lock.kind(),
                waited_for: now.saturating_duration_since(*since),
                place: *place,
                site: asker.site.map(|site| site.to_string()),
                inside: inside.clone(),
            });
        }
    }
}
