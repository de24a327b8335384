//! Semaphores: permits that become free when their leases end.
// S-30.

use super::{Change, Name, Number, Permit, Reply, SOON, Value, counter_expiry};
use crate::clock::Tick;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Target};

/// The same text as in the script.
const LATCH: &str = "the key holds a count-down latch";

impl Name {
    pub(super) fn acquire_permits(&mut self, ask: &AcquireRequest, change: &mut Change) -> Reply {
        let (wanted, limit, now) = (ask.owner.permits(), ask.target.limit(), change.now);
        if self.number()?.is_some_and(|number| number.until.is_none()) {
            return Err(StoreError::new(StoreErrorKind::WrongType, LATCH));
        }
        let mut ends: Vec<Tick> = self.permits.iter().map(|permit| permit.until).collect();
        ends.retain(|end| *end > now);
        ends.sort_unstable();
        let over = (ends.len() + wanted as usize).saturating_sub(limit as usize);
        if over > 0 && !self.has_permit(&ask.owner, now) {
            // This many must end, starting with the first to end.
            let last = ends.get(over - 1);
            return Ok(AcquireReply::Held(last.map(|last| last.since(now).max(SOON))));
        }
        let token = self.mint(ask, now);
        let before = self.permits.len();
        self.permits.retain(|permit| permit.until > now);
        let ended = self.permits.len() < before;
        for number in 1..=wanted {
            self.keep_permit(&ask.owner, number, now.after(ask.lease));
        }
        let free = i64::from(limit) - i64::try_from(self.permits.len()).unwrap_or(i64::MAX);
        let until = Some(now.after(ask.lease).after(counter_expiry(ask)));
        self.value = Some(Value::Number(Number { count: free, until }));
        if ended && free > 0 {
            change.notify(ask.target.channel());
        }
        Ok(AcquireReply::Granted(token))
    }

    pub(super) fn release_permits(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        change: &mut Change,
    ) -> bool {
        let alive = self.has_permit(owner, change.now);
        let before = self.permits.len();
        self.permits.retain(|permit| !permit.is_of(owner));
        let freed = before - self.permits.len();
        if freed == 0 {
            return false;
        }
        // Whatever the name holds by now, the permits are free and the waiters are notified.
        if let Ok(Some(number)) = self.number() {
            number.count = number.count.saturating_add(i64::try_from(freed).unwrap_or(i64::MAX));
        }
        change.notify(lock.channel());
        alive
    }

    pub(super) fn renew_permits(&mut self, owner: &OwnerId, until: Tick, now: Tick) -> bool {
        let was_let_go =
            self.permits.iter().any(|permit| permit.kept && &*permit.owner == owner.as_field());
        if was_let_go || !self.has_permit(owner, now) {
            return false;
        }
        for permit in self.permits.iter_mut().filter(|permit| permit.is_of(owner)) {
            permit.until = permit.until.max(until);
        }
        // The name belongs to a semaphore for as long.
        if let Some(Value::Number(Number { until: Some(end), .. })) = &mut self.value {
            *end = until.max(*end);
        }
        true
    }

    /// Makes the owner's permits end at that time, sooner or later than they would.
    pub(super) fn end_permits_later(&mut self, owner: &OwnerId, until: Tick, now: Tick) -> bool {
        if !self.has_permit(owner, now) {
            return false;
        }
        for permit in self.permits.iter_mut().filter(|permit| permit.is_of(owner)) {
            (permit.until, permit.kept) = (until, true);
        }
        true
    }

    /// True if the owner has permits and their lease has not ended.
    fn has_permit(&self, owner: &OwnerId, now: Tick) -> bool {
        self.permits.iter().any(|permit| {
            permit.number == 1 && permit.until > now && &*permit.owner == owner.as_field()
        })
    }

    /// Enters a permit. An existing one is never shortened.
    // S-22.
    fn keep_permit(&mut self, owner: &OwnerId, number: u32, until: Tick) {
        let ours =
            |permit: &&mut Permit| permit.number == number && &*permit.owner == owner.as_field();
        match self.permits.iter_mut().find(ours) {
            Some(permit) => (permit.until, permit.kept) = (permit.until.max(until), false),
            None => {
                let owner = owner.shared_field();
                self.permits.push(Permit { owner, number, until, kept: false });
            }
        }
    }
}

impl Permit {
    /// True if the owner has it, as one of the number that it names.
    fn is_of(&self, owner: &OwnerId) -> bool {
        &*self.owner == owner.as_field() && self.number <= owner.permits()
    }
}
