//! The signals that this process handles in place of ending.

use std::fs;
use std::future::poll_fn;
use std::task::{Context, Poll};

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::task::yield_now;

use crate::failure::Failure;

/// What users and supervisors send to a process that should end, reload or report.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals of [`PASSED_ON`] that this process was not started to ignore.
pub(super) fn passed_on() -> impl Iterator<Item = Signal> {
    not_ignored(PASSED_ON)
}

/// The signals that this process was not started to ignore: `nohup lockctl run` ignores SIGHUP, and its command must
/// inherit that. A handler would end it, because a new program gets the default in place of a handler.
pub(super) fn not_ignored(
    signals: impl IntoIterator<Item = Signal>,
) -> impl Iterator<Item = Signal> {
    let ignored = mask("self", "SigIgn:");
    signals.into_iter().filter(move |signal| ignored & bit(*signal) == 0)
}

/// True if a process has a handler for the signal.
pub(super) fn handles(process: Pid, signal: Signal) -> bool {
    mask(&process.to_string(), "SigCgt:") & bit(signal) != 0
}

/// A bit for each signal of this line. Zero where the system has no `/proc`.
fn mask(process: &str, line: &str) -> u64 {
    // The name of the program may be no UTF-8.
    let status = fs::read(format!("/proc/{process}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|one| one.strip_prefix(line));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Signals that arrive. From its making on, they do not end this process, not even after its drop.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(super) fn new(signals: impl IntoIterator<Item = Signal>) -> Result<Self, Failure> {
        let streams = signals.into_iter().map(|one| {
            let stream = signal(SignalKind::from_raw(one.as_raw())).map_err(|error| {
                Failure::store(format!("the signal {} cannot be handled: {error}", one.as_raw()))
            })?;
            Ok((one, stream))
        });
        streams.collect::<Result<_, _>>().map(Self)
    }

    /// False if there are none: then `next` never returns.
    pub(super) fn handles_some(&self) -> bool {
        !self.0.is_empty()
    }

    /// Waits for one of them. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Returns those that have arrived, each once.
    pub(super) async fn arrived(&mut self) -> Vec<Signal> {
        // The runtime looks after the handlers meanwhile.
        yield_now().await;
        let mut arrived = Vec::new();
        poll_fn(|cx| {
            while let Poll::Ready(signal) = self.poll(cx) {
                arrived.push(signal);
            }
            Poll::Ready(())
        })
        .await;
        arrived
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        let mut streams = self.0.iter_mut();
        match streams.find_map(|(one, stream)| stream.poll_recv(cx).is_ready().then_some(*one)) {
            Some(arrived) => Poll::Ready(arrived),
            None => Poll::Pending,
        }
    }
}
