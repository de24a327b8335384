//! The parts that every wait for the store shares: its end, its notifications, its patience.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::time::{Instant, timeout_at};

use super::request::Request;
use crate::admin::waits::Listed;
use crate::error::StoreError;
use crate::lease::manager::Timing;
use crate::observe::log_lock;
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::queue::{Asked, Seat};
use crate::store::{Subscription, Target};

/// The least time that the store gets to answer.
pub(super) const A_MOMENT: Duration = Duration::from_millis(100);

/// The longest sleep of a waiter without a subscription.
const UNHEARD: Duration = Duration::from_secs(1);

/// One wait, from the first request to the last.
pub(super) struct Waiting {
    request: Arc<Request>,
    limit: Option<Instant>,
    notices: Option<Subscription>,
    /// How many turns of other processes were counted so far.
    turns_seen: u64,
    /// When the store was asked last.
    asked_at: Instant,
    /// True if that request had less time than usual, because the patience is nearly over.
    is_cut_short: bool,
    /// Since when the store has been failing.
    failing_since: Option<Instant>,
    /// Shows the wait to people who look in, once the store has refused it.
    listed: Option<Listed>,
}

impl Waiting {
    /// Continues where the last contender stopped.
    pub(super) fn new(
        request: Arc<Request>,
        asked_at: Instant,
        failing_since: Option<Instant>,
    ) -> Self {
        Self {
            limit: request.limit(),
            request,
            notices: None,
            turns_seen: 0,
            asked_at,
            is_cut_short: false,
            failing_since,
            listed: None,
        }
    }

    fn timing(&self) -> &Timing {
        &self.request.spec.engine.leases.timing
    }

    /// Records that the store has answered, without a grant.
    // For this wait, and with the seat for all that queue behind it.
    pub(super) fn answered(&mut self, seat: &Seat<OwnedHold>) {
        self.failing_since = None;
        seat.refused(self.asked_at);
    }

    /// Records that the store has failed. True if that ends the wait.
    // S-33: the time of failures counts from the first in a row, whichever task met it, and for each wait from its own beginning.
    pub(super) fn failed(&mut self, error: &StoreError, seat: &Seat<OwnedHold>) -> bool {
        let patience = self.timing().store_patience;
        let out_of_patience = self.failing_for() >= patience;
        seat.failed(error, self.asked_at, patience);
        !error.kind().is_transient()
            || out_of_patience
            || self.out_of_time()
            || self.request.spec.options.get_wait() == Wait::None
    }

    /// For how much of this wait the store has been failing, counted at the latest from the last request.
    pub(super) fn failing_for(&mut self) -> Duration {
        let since = *self.failing_since.get_or_insert(self.asked_at);
        since.max(self.request.started).elapsed()
    }

    /// Discards earlier notifications: call it before the request that acts on them.
    pub(super) fn forget_past(&mut self) {
        if let Some(notices) = &mut self.notices {
            notices.forget_past();
        }
    }

    /// Ends the subscription: notifications arrive on another channel from now on.
    pub(super) fn stop_listening(&mut self) {
        self.notices = None;
    }

    pub(super) fn listens(&self) -> bool {
        self.notices.is_some()
    }

    /// Listens if that needs no request. A refusal of a request after that needs no second one.
    pub(super) fn listen_at_once(&mut self, target: &Arc<Target>) {
        if !self.listens() {
            self.notices = self.request.spec.engine.leases.store.standing_subscription(target);
            self.turns_seen = 0;
        }
    }

    /// True once a notification from now on will be received. Without a subscription, the wait polls.
    pub(super) async fn subscribe(&mut self, target: &Arc<Target>) -> bool {
        let leases = &self.request.spec.engine.leases;
        let timeout = self.time_left(leases.timing.command_timeout);
        // A release during this await may notify no task here. The caller asks the store once more after it subscribed, and finds the
        // lock free.
        match leases.store.subscribe(target, timeout).await {
            Ok(notices) => {
                self.notices = Some(notices);
                self.turns_seen = 0;
                true
            }
            Err(error) => {
                let label = &self.request.label;
                log_lock!(debug, target.key(), label, %error, "no subscription");
                false
            }
        }
    }

    /// Waits for a notification until then, but not past this wait's limit. True if one came.
    pub(super) async fn notified_until(&mut self, until: Instant) -> bool {
        // Notifications are counted from `forget_past` on, so one that came before this await ends it at once.
        let Some(notices) = &mut self.notices else { return false };
        let until = self.limit.map_or(until, |limit| limit.min(until));
        timeout_at(until, notices.notified()).await.is_ok()
    }

    /// How many turns of other processes were reported since the last call.
    pub(super) fn turns_heard(&mut self) -> u32 {
        let heard = self.notices.as_ref().map_or(0, Subscription::heard);
        let turns = heard.saturating_sub(std::mem::replace(&mut self.turns_seen, heard));
        u32::try_from(turns).unwrap_or(u32::MAX)
    }

    /// The longest sleep between two requests, with jitter. Shorter without a subscription: one that failed is
    /// tried again with the next request.
    // S-15.
    pub(super) fn poll_cap(&self) -> Duration {
        let cap = self.timing().poll_cap;
        let cap = if self.listens() { cap } else { cap.min(UNHEARD) };
        cap.mul_f64(0.8 + 0.4 * fastrand::f64())
    }

    /// Records that it waits.
    fn waits(&mut self) {
        self.request.waits();
        self.listed
            .get_or_insert_with(|| self.request.spec.engine.waits.list(self.request.as_wait()));
    }

    /// Sleeps until the first of: a notification, `most`, this wait's limit, the client's shutdown, or a caller
    /// that does not wait and needs the store asked.
    // S-15, S-33.
    pub(super) async fn nap(&mut self, most: Duration, asked: Option<&Asked<OwnedHold>>) {
        self.waits();
        let nap = tokio::time::sleep(self.time_left(most));
        // `Engine::close` stores `closed`, then notifies: a shutdown before the check is found by it, and one after it ends the
        // nap.
        let engine = &self.request.spec.engine;
        let closing = engine.closing.notified();
        tokio::pin!(closing);
        // Register, then check, then wait; the caller checks `closed` too.
        closing.as_mut().enable();
        if engine.closed.load(Ordering::SeqCst) {
            return;
        }
        let noticed = OptionFuture::from(self.notices.as_mut().map(Subscription::notified));
        let is_needed = OptionFuture::from(asked.map(Asked::is_needed));
        // What ends the nap does not matter: the store is asked again, and its answer counts. A notification that was meant for another
        // waiter costs a request, and one that is lost a sleep.
        tokio::select! {
            () = nap => {}
            () = closing => {}
            Some(()) = noticed => {}
            Some(()) = is_needed => {}
        }
    }

    /// Sleeps for a random time, in milliseconds, but not past this wait's limit.
    pub(super) async fn pause(&mut self, millis: std::ops::Range<u64>) {
        self.waits();
        let pause = Duration::from_millis(fastrand::u64(millis));
        tokio::time::sleep(self.time_left(pause)).await;
    }

    /// Waits for `something`, but at most `most` and not past this wait's limit.
    pub(super) async fn at_most(&self, most: Duration, something: impl Future<Output = ()>) {
        let _ = timeout_at(Instant::now() + self.time_left(most), something).await;
    }

    /// Marks that the store is asked now, and returns how long it may take.
    pub(super) fn ask(&mut self) -> Duration {
        self.ask_at(Instant::now())
    }

    /// The same for the first request, at the start of the acquire.
    pub(super) fn ask_first(&mut self) -> Duration {
        self.ask_at(self.request.started)
    }

    /// As long as the wait and the patience last, but at least `A_MOMENT`. Otherwise a short wait over a slow network
    /// could never succeed.
    fn ask_at(&mut self, now: Instant) -> Duration {
        self.asked_at = now;
        let replicas = self.request.spec.options.replicas;
        let command_timeout = self.timing().command_timeout
            + replicas.map_or(Duration::ZERO, |replicas| replicas.timeout);
        // No longer than the patience with a store that fails: the error is due then, whether or not this request is answered.
        let patience = match self.failing_since {
            Some(_) => self.timing().store_patience.saturating_sub(self.failing_for()),
            None => self.timing().store_patience,
        };
        self.is_cut_short = patience < command_timeout;
        let most = command_timeout.min(patience);
        let left = |limit: Instant| limit.saturating_duration_since(now).min(most);
        self.limit.map_or(most, left).max(A_MOMENT.min(command_timeout))
    }

    /// True if the last request had less time than usual, because the patience was nearly over.
    pub(super) fn was_cut_short(&self) -> bool {
        self.is_cut_short
    }

    fn time_left(&self, most: Duration) -> Duration {
        let left = |limit: Instant| limit.saturating_duration_since(Instant::now());
        self.limit.map_or(most, |limit| left(limit).min(most))
    }

    pub(super) fn out_of_time(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }
}
