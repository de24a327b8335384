//! Turns between processes.

use tokio::time::Instant;

use super::Contender;
use crate::options::Wait;
use crate::queue::head_start;

impl Contender {
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
