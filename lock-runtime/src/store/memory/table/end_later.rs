//! Lets a hold end by itself at a given time, in place of freeing it.

use super::{Change, Mode, Name, side_of};
use crate::clock::Tick;
use crate::store::{HoldKind, OwnerId, Target};

impl Name {
    /// Makes the owner's hold end at that time, sooner or later than it would. Its end sends no notification,
    /// so the waiters are notified now. False if there is no such hold.
    pub(super) fn end_later(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        until: Tick,
        change: &mut Change,
    ) -> bool {
        let held = match lock.kind() {
            HoldKind::Semaphore => self.end_permits_later(owner, until, change.now),
            kind => self.end_field_later(kind, owner, until),
        };
        match lock.kind() {
            _ if !held => {}
            HoldKind::Fair => self.notify_first(lock, change),
            _ => change.notify(lock.channel()),
        }
        held
    }

    fn end_field_later(&mut self, kind: HoldKind, owner: &OwnerId, until: Tick) -> bool {
        let field = owner.as_field();
        let Ok(Some(hash)) = self.hash() else { return false };
        if !hash.has(field, side_of(kind)) {
            return false;
        }
        let mode = hash.mode;
        if kind == HoldKind::Read {
            let Some(end) = self.reads.get_mut(field) else { return false };
            *end = until;
            self.kept_reads.insert(owner.shared_field());
        }
        if kind == HoldKind::Write {
            // Other holds inside may keep the hash longer: record that the writer has released, and until when
            // it is kept.
            self.kept_writes.insert(owner.shared_field(), until);
        }
        let longest = self.longest_reader().unwrap_or(until);
        let Ok(Some(hash)) = self.hash() else { return false };
        // The count of a reader is no evidence: it may be inside of a writer.
        if kind != HoldKind::Read
            && let Some(field) = hash.field(field, side_of(kind))
        {
            field.count = 0;
        }
        hash.until = match kind {
            HoldKind::Read if mode == Mode::Read => longest,
            // A reader inside of a writer does not shorten the writer's hold.
            HoldKind::Read => longest.max(hash.until),
            HoldKind::Write => longest,
            _ => until,
        };
        true
    }
}
