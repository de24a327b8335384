//! Logs a wait that lasts: it may be two locks in opposite orders, or a task that waits for itself, which
//! without an end to the wait no error ends.
// S-36.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::request::Request;
use crate::observe::log_lock;

/// A wait longer than this is logged.
const LONG: Duration = Duration::from_secs(10);

/// Whether a wait is logged.
#[derive(Default)]
pub(super) struct LongWait {
    is_logged: bool,
    /// True once it was looked at: most waits are polled once before they end, and read no clock for this.
    was_seen: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl LongWait {
    /// Logs the wait, once, when it has become long. Called when its future is polled; `is_polled` if that happens regularly, as
    /// in the queue, so that it needs no timer.
    pub(super) fn look(&mut self, request: &Request, is_polled: bool, cx: &mut Context<'_>) {
        if self.is_logged {
            return;
        }
        let then = request.started + LONG;
        let is_long = match is_polled {
            true => std::mem::replace(&mut self.was_seen, true) && Instant::now() >= then,
            false => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(then)));
                timer.as_mut().poll(cx).is_ready()
            }
        };
        if is_long {
            self.is_logged = true;
            let (key, label) = (request.spec.target.key(), &request.label);
            let holder = request.holder();
            log_lock!(warn, key, label, lock.holder = %holder, "has waited {LONG:?} for the lock");
        }
    }
}
