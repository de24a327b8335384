//! [`Keepers`]: the runtimes that use a client, each of which keeps the client's task alive.
//!
//! The client's task runs in one runtime, but other runtimes hold locks, too: a guard in a variable of theirs
//! has to be renewed when that runtime has ended, or is not driven any more. As soon as a second runtime uses the client,
//! each has a *keeper*: a task that looks at the client's task every 0.7 s, and starts another in its own runtime if that has
//! ended, or had work for three looks in a row and did none. A keeper is polled only in a runtime that is driven, and so is
//! what it starts. Over Redis the link is moved as well, and both take up to six seconds: a hold whose lease is below ten may be lost before.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::manager::LeaseManager;

/// How often a keeper looks: so that a task which does nothing for two seconds is found.
const LOOK: Duration = Duration::from_millis(700);

/// A task that had work and did none is not polled if that many looks in a row find it so. More than one: after a process
/// stood still, the first look may come before the task is polled.
const LOOKS: u32 = 2;

/// The runtimes that were seen last, by their numbers: most programs have one, and every acquire asks.
const SEEN: usize = 16;

#[derive(Default)]
pub(super) struct Keepers {
    // Relaxed: a caller that misses a change remembers its runtime once more, which changes nothing, or does so at its next
    // acquire.
    seen: [AtomicU64; SEEN],
    // No other mutex is taken under it, and no task is started.
    known: Mutex<Vec<Known>>,
    /// Has the keepers look at once, or end with the client.
    look: Arc<Notify>,
}

/// A runtime that uses the client. Without its handle, which would keep the files of a runtime that has ended.
struct Known {
    runtime: Id,
    has_keeper: bool,
}

impl Keepers {
    /// Has the keepers look when it is notified.
    pub(super) fn look(&self) -> &Arc<Notify> {
        &self.look
    }

    /// True if the runtime is known.
    pub(super) fn knows(&self, runtime: Id) -> bool {
        let number = number(runtime);
        self.slot(number).load(Ordering::Relaxed) == number
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.seen[number as usize % SEEN]
    }

    /// Remembers the caller's runtime. If another is known, this one gets a keeper; the first gets its own when it next
    /// acquires a lock, or finds that it has not the watchdog any more.
    pub(super) fn remember(&self, leases: &Arc<LeaseManager>) {
        let Ok(handle) = Handle::try_current() else { return };
        let runtime = handle.id();
        {
            let mut known = self.known.lock();
            if !known.iter().any(|known| known.runtime == runtime) {
                known.push(Known { runtime, has_keeper: false });
            }
            self.slot(number(runtime)).store(number(runtime), Ordering::Relaxed);
            let is_alone = known.len() == 1;
            let mut has_keeper = is_alone;
            for known in known.iter_mut() {
                match known.runtime == runtime {
                    true if is_alone => {}
                    true => has_keeper = std::mem::replace(&mut known.has_keeper, true),
                    false if known.has_keeper => {}
                    false => self.unsee(known.runtime),
                }
            }
            if has_keeper {
                return;
            }
        }
        // Not under the mutex: a runtime that is ending drops the task here, which forgets the runtime.
        let keeper = Keeper { leases: Arc::downgrade(leases), runtime };
        handle.spawn(keep(keeper, Arc::clone(&self.look)));
    }

    /// Forgets a runtime that has ended.
    fn forget(&self, runtime: Id) {
        let mut known = self.known.lock();
        known.retain(|known| known.runtime != runtime);
        self.unsee(runtime);
    }

    /// Has the runtime remembered again.
    fn unsee(&self, runtime: Id) {
        let (number, order) = (number(runtime), Ordering::Relaxed);
        let _ = self.slot(number).compare_exchange(number, 0, order, order);
    }
}

/// The runtime's number: unique in this process, and never zero.
fn number(runtime: Id) -> u64 {
    /// Keeps the number that it is given.
    struct Number(u64);

    impl Hasher for Number {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.wrapping_mul(257).wrapping_add(u64::from(*byte));
            }
        }

        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }
    }

    let mut hasher = Number(0);
    runtime.hash(&mut hasher);
    hasher.finish().max(1)
}

/// Exists as long as the keeper of a runtime.
struct Keeper {
    leases: Weak<LeaseManager>,
    runtime: Id,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(leases) = self.leases.upgrade() {
            leases.keepers.forget(self.runtime);
        }
    }
}

/// The keeper's task. It ends with the client, or with its runtime.
async fn keep(keeper: Keeper, look: Arc<Notify>) {
    let mut stall = Stall::default();
    loop {
        let told = look.notified();
        tokio::pin!(told);
        // Register, then look, then wait.
        // A task that ends between this and the look is found gone by the look; one that ends later tells this.
        told.as_mut().enable();
        let Some(leases) = keeper.leases.upgrade() else { return };
        leases.revive(false);
        // Not kept while this sleeps: the client ends with its last user, and that tells this, too.
        drop(leases);
        tokio::select! {
            () = told => {}
            () = sleep(LOOK) => {
                let Some(leases) = keeper.leases.upgrade() else { return };
                // A task that was only slow goes on until it finds the later number. Until then both may send: a renewal twice
                // does no harm, and a release is idempotent.
                leases.revive(stall.note(leases.task.unattended()));
            }
        }
    }
}

/// What a keeper saw of a task in earlier looks.
#[derive(Default)]
struct Stall {
    rounds: u64,
    looks: u32,
}

impl Stall {
    /// True if the task has had work for some looks and did none. `unattended` is the number of its rounds if it has work.
    fn note(&mut self, unattended: Option<u64>) -> bool {
        match unattended {
            Some(rounds) if rounds == self.rounds && self.looks > 0 => self.looks += 1,
            Some(rounds) => (self.rounds, self.looks) = (rounds, 1),
            None => self.looks = 0,
        }
        let is_stalled = self.looks > LOOKS;
        if is_stalled {
            self.looks = 0;
        }
        is_stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_have_numbers_of_their_own() {
        let runtimes =
            [(); 3].map(|()| tokio::runtime::Builder::new_current_thread().build().unwrap());
        let numbers = runtimes.each_ref().map(|runtime| number(runtime.handle().id()));
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        assert_eq!(numbers[0], number(runtimes[0].handle().id()));
    }

    #[test]
    fn a_task_without_work_or_with_progress_is_not_stalled() {
        let mut stall = Stall::default();
        for rounds in [Some(5), Some(5), None, Some(5), Some(5), Some(6), Some(6)] {
            assert!(!stall.note(rounds));
        }
        assert!(stall.note(Some(6)));
        assert!(!stall.note(Some(6)), "its successor has not had its time");
    }
}
