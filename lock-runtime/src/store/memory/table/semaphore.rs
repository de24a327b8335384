//! Semaphores: permits that come back when their leases end (S-30).

use super::{Name, Number, Permit, Reply, SOON, TOKEN_MEMORY, Tell, Value};
use crate::clock::Tick;
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Target};

impl Name {
    pub(super) fn acquire_permits(
        &mut self,
        ask: &AcquireRequest,
        now: Tick,
        tell: &mut Tell,
    ) -> Reply {
        // Without an end: a count that somebody else set.
        let endless = self.number()?.is_some_and(|number| number.until.is_none());
        let (wanted, limit) = (ask.owner.permits(), ask.target.limit());
        let alive = || self.permits.iter().filter(|permit| permit.until > now);
        if !self.has_permit(&ask.owner, now) && alive().count() + wanted as usize > limit as usize {
            let first = alive().map(|permit| permit.until).min();
            return Ok(AcquireReply::Held(first.map(|first| first.since(now).max(SOON))));
        }
        let token = self.mint(ask.tokens, now);
        let before = self.permits.len();
        self.permits.retain(|permit| permit.until > now);
        let ended = self.permits.len() < before;
        for number in 1..=wanted {
            self.keep_permit(&ask.owner, number, now.after(ask.lease));
        }
        let free = i64::from(limit) - i64::try_from(self.permits.len()).unwrap_or(i64::MAX);
        let until = (!endless).then(|| now.after(ask.lease).after(TOKEN_MEMORY));
        self.value = Some(Value::Number(Number { count: free, until }));
        if ended && free > 0 {
            tell.push(ask.target.channel().to_owned());
        }
        Ok(AcquireReply::Granted(token))
    }

    pub(super) fn release_permits(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        now: Tick,
        tell: &mut Tell,
    ) -> bool {
        let alive = self.has_permit(owner, now);
        let before = self.permits.len();
        self.permits
            .retain(|permit| &*permit.owner != owner.as_field() || permit.number > owner.permits());
        let freed = before - self.permits.len();
        let Ok(number) = self.number() else { return false };
        if freed == 0 {
            return false;
        }
        if let Some(number) = number {
            number.count = number.count.saturating_add(i64::try_from(freed).unwrap_or(i64::MAX));
        }
        tell.push(lock.channel().to_owned());
        alive
    }

    pub(super) fn renew_permits(&mut self, owner: &OwnerId, until: Tick, now: Tick) -> bool {
        if !self.has_permit(owner, now) {
            return false;
        }
        for permit in &mut self.permits {
            if &*permit.owner == owner.as_field() && permit.number <= owner.permits() {
                permit.until = permit.until.max(until);
            }
        }
        true
    }

    /// True if the owner has permits and their lease has not ended.
    fn has_permit(&self, owner: &OwnerId, now: Tick) -> bool {
        self.permits.iter().any(|permit| {
            permit.number == 1 && permit.until > now && &*permit.owner == owner.as_field()
        })
    }

    /// Enters a permit. One that is there already is never made shorter (S-22).
    fn keep_permit(&mut self, owner: &OwnerId, number: u32, until: Tick) {
        let ours =
            |permit: &&mut Permit| permit.number == number && &*permit.owner == owner.as_field();
        match self.permits.iter_mut().find(ours) {
            Some(permit) => permit.until = permit.until.max(until),
            None => self.permits.push(Permit { owner: owner.shared_field(), number, until }),
        }
    }
}
