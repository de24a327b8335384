//! Turns between processes, and between the readers and writers of this process.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Contended, Contender, Next};
use crate::clock::Tick;
use crate::lease::SeatOfHold;
use crate::observe::Meter;
use crate::options::Wait;
use crate::owned_hold::{Found, OwnedHold, ReadPhase, Role};
use crate::queue::{Seat, head_start};

impl Contender {
    /// What a hold acquired at `sent_at` has to do with other tasks of this process, and what acts when it is lost.
    pub(super) fn role(
        &self,
        seat: &Seat<OwnedHold>,
        sent_at: Tick,
        excludes_next: bool,
    ) -> (Role, Option<SeatOfHold>) {
        if self.request.shares() && seat.has_queue() {
            let phase = ReadPhase::in_store(&self.leases());
            return (Role::ReadPhase(Arc::clone(&phase)), Some((phase, 0)));
        }
        let here = seat.queues_and_number().filter(|_| excludes_next);
        let place: Option<SeatOfHold> = here.map(|(queues, number)| (queues as _, number));
        match self.request.writes_from(sent_at, place.as_ref()) {
            Some((writer, place)) => (Role::Writer(writer), Some(place)),
            None => (Role::Nothing, place),
        }
    }

    /// What a reader does while a writer of this process has the lock.
    // S-27.
    pub(super) fn look_for_phase(&mut self) -> Option<Next> {
        match self.reader.as_mut()?.look()? {
            Found::Phase(owned) => {
                let now = self.leases().clock.now();
                let label = self.request.label.clone();
                owned.hold.begin(Meter::new(label, owned.hold.target.kind()), now);
                self.request.offer(&owned);
                // Not past the window: they may not be polled.
                let kept = owned.keep_for_others();
                self.attempt.seat.share_before(Instant::now(), &kept);
                Some(Next::End(Contended::ToShare(kept)))
            }
            Found::Writer(until) => {
                let is_over = self.leases().clock.now() >= until;
                (!is_over).then_some(Next::WaitForWriter(until))
            }
        }
    }

    /// After a release of which other processes were notified, one of them may go first. A caller that does not
    /// wait spends these milliseconds too: the notified processes may have stopped waiting, so "busy" would be
    /// a guess.
    // S-14.
    pub(super) async fn let_others_go_first(&mut self) {
        let Some(until) = self.attempt.seat.head_start_end() else { return };
        if self.subscribe().await {
            self.leave_to_others(until).await;
        }
    }

    /// After a notification, a process that held the lock recently gives a head start to processes that did
    /// not. Otherwise the quickest processes would take turns and leave none to slower ones.
    // S-14.
    pub(super) async fn let_others_have_their_turn(&mut self) {
        let turns = self.waiting.turns_heard();
        if turns > 0 && self.attempt.seat.note_turns_of_others(turns) {
            self.leave_to_others(Instant::now() + head_start()).await;
        }
    }

    /// Waits for the head start that ends at `until`, or until all other processes have had their turn. Each
    /// release meanwhile starts another head start for the processes that have not.
    async fn leave_to_others(&mut self, mut until: Instant) {
        while self.waiting.notified_until(until).await {
            let turns = self.waiting.turns_heard();
            // Several servers may send a notification for one release.
            let all_had_theirs = turns > 0 && !self.attempt.seat.note_turns_of_others(turns);
            if all_had_theirs || self.request.spec.options.get_wait() == Wait::None {
                return;
            }
            if turns > 0 {
                until = Instant::now() + head_start();
            }
        }
    }
}
