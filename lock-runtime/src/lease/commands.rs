//! Commands that the store runs for a hold, as far as they decide whether the hold may be handed over.
//!
//! The store knows the owner of a hold, which stays the same when the hold passes to another task. A command of an earlier task
//! that is still on its way would pass for one of the task that has the hold by then. So a hold passes on only while the outcome
//! of each of its commands is known. Otherwise it is released, and the next task gets an owner id of its own.
// S-14, S-37.

use std::sync::atomic::Ordering;

use super::Hold;

/// In place of the number of commands: the hold passes to another task, or is being released.
const PASSING: u8 = u8::MAX;

/// So many or more: they are not counted any more, as if the outcome of one were never known. A byte has room in a hold; four make it
/// larger.
#[cfg(feature = "redis")]
const MANY: u8 = PASSING - 1;

impl Hold {
    /// Counts a command before it is sent; `None` once the hold passes on. The caller then checks that its guard has the hold:
    /// if so, the hold stays with that guard, or is released, until the outcome is known.
    #[cfg(feature = "redis")]
    pub(crate) fn begin_command(&self) -> Option<CommandUnderWay<'_>> {
        // The partners are `refuse_commands` and `admit_commands`: all are changes of one atomic, so a command is counted
        // before the hold passes, which then stays; or it finds `PASSING`; or it comes after the next holder's token, which the
        // check then finds.
        let order = Ordering::SeqCst;
        let begun = self.commands.fetch_update(order, order, |commands| match commands {
            PASSING => None,
            commands => Some(MANY.min(commands + 1)),
        });
        begun.ok().map(|_| CommandUnderWay { hold: self })
    }

    /// True if the outcome of each command is known. Then none begins until the next task [has](Self::admit_commands) the hold.
    pub(crate) fn refuse_commands(&self) -> bool {
        let order = Ordering::SeqCst;
        let refused = self.commands.compare_exchange(0, PASSING, order, order);
        matches!(refused, Ok(_) | Err(PASSING))
    }

    /// Lets the task begin commands whose token the hold has now.
    pub(crate) fn admit_commands(&self) {
        // Nothing is counted at this moment: the value is `PASSING`, which `begin_command` leaves as it is. Releases the token.
        self.commands.store(0, Ordering::SeqCst);
    }
}

/// A command that may be on its way to the store. If it is dropped before its outcome is known, it stays counted.
#[cfg(feature = "redis")]
#[must_use]
pub(crate) struct CommandUnderWay<'a> {
    hold: &'a Hold,
}

#[cfg(feature = "redis")]
impl CommandUnderWay<'_> {
    /// Records that the command has run, or will never run.
    pub(crate) fn conclude(self) {
        // Of so many that they were not counted, none can be taken off: the hold goes to the store.
        let order = Ordering::SeqCst;
        let _ = self.hold.commands.fetch_update(order, order, |commands| match commands {
            MANY | PASSING => None,
            commands => Some(commands - 1),
        });
    }
}
