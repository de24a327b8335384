//! What this process says of itself: who it is, what it holds, and who waits in it.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use tokio::time::Instant;

use super::SurveyedProcess;
use super::wire::{Answer, HoldLine, Request, WaitLine};
use crate::acquire::Engine;
use crate::admin::waits::WaitEntry;
use crate::admin::{HeldInfo, visit_waits};
use crate::lease::Hold;
use crate::process::{executable, host_name};

/// When the first client of this process was created, which is about when the process began; and the zero of the clock on which
/// waits are told apart.
static STARTED: LazyLock<(SystemTime, Instant)> =
    LazyLock::new(|| (SystemTime::now(), Instant::now()));

/// A client lists at most so many holds, and so many waits, whatever is asked for.
const MOST_LINES: usize = 10_000;

impl SurveyedProcess {
    /// A client of this process.
    pub(super) fn of(engine: &Engine, service: Option<&str>) -> Self {
        Self {
            id: engine.leases.client.to_string(),
            service: service.map_or_else(executable, str::to_owned),
            host: host_name(),
            pid: std::process::id(),
            started: STARTED.0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl Answer {
    /// What is held and waited for under names that begin as asked for, as many of each as asked for.
    pub(super) fn of(engine: &Engine, client: &Arc<SurveyedProcess>, request: &Request) -> Self {
        let mut answer = Self::new(request.id, client);
        let (prefix, limit) = (&*request.prefix, request.limit.min(MOST_LINES));
        for hold in engine.leases.watchdog.all() {
            answer.add_hold(&hold, prefix, limit);
        }
        let now = Instant::now();
        visit_waits(engine, &mut |wait| answer.add_wait(wait, now, prefix, limit));
        answer
    }

    fn add_hold(&mut self, hold: &Hold, prefix: &str, limit: usize) {
        let Some(info) = HeldInfo::of(hold) else { return };
        for lock in hold.target.locks().filter(|lock| lock.key().as_str().starts_with(prefix)) {
            if self.holds.len() >= limit {
                self.cut = true;
                return;
            }
            self.holds.push(HoldLine {
                hold: hold.owner.pseudonym(),
                name: lock.key().to_string(),
                kind: lock.kind(),
                held_for: info.held_for,
                left: info.remaining,
                site: info.site.clone(),
                policy: info.policy.clone(),
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
