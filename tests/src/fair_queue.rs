//! The queue of a fair mutex, as the server has it at one moment.

use redis::{RedisResult, from_redis_value};

use crate::raw_client::RawClient;

/// Returns the server's time, the holder, the owners that wait, and until when each keeps its place.
const LOOK: &str = "
local time, holder = redis.call('TIME'), ''
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if field ~= 'mode' then holder = field end
end
local waiters, places_end = redis.call('LRANGE', KEYS[2], 0, -1), {}
for place, owner in ipairs(waiters) do
  places_end[place] = tonumber(redis.call('ZSCORE', KEYS[3], owner)) or 0
end
return {time[1] * 1000 + math.floor(time[2] / 1000), holder, waiters, places_end}";

/// The queue of one fair mutex, and its holder.
#[derive(Debug)]
pub(crate) struct FairQueue {
    /// When, by the server's clock, in milliseconds.
    at: u64,
    /// The owner that has the lock; empty if none has.
    holder: String,
    /// In order, each with the time at which it counts as dead.
    waiters: Vec<(String, u64)>,
}

impl FairQueue {
    /// Reads the queue of the mutex `name`.
    ///
    /// # Errors
    ///
    /// The server's error reply, or the connection's failure.
    pub(crate) async fn of(server: &RawClient, name: &str) -> RedisResult<Self> {
        let queue = format!("redisson_lock_queue:{{{name}}}");
        let scores = format!("redisson_lock_timeout:{{{name}}}");
        let answer = server.try_cmd(&["EVAL", LOOK, "3", name, &queue, &scores]).await?;
        let (at, holder, waiters, places_end): (u64, _, Vec<String>, Vec<u64>) =
            from_redis_value(answer)?;
        Ok(Self { at, holder, waiters: waiters.into_iter().zip(places_end).collect() })
    }

    /// Returns each waiter that still waits in `later`, with each owner that was not ahead of it and now is, or has the
    /// lock. A waiter that may have died in between has lost its place rightly.
    ///
    /// A request that arrives again after its owner's release puts that owner at the end, which looks as if those behind
    /// had overtaken it: such a fault is [`May::Repeat`](crate::history::May).
    pub(crate) fn passed<'l>(&'l self, later: &'l Self) -> Vec<(&'l str, &'l str)> {
        let mut passed = Vec::new();
        for (place, (waiter, place_ends)) in self.waiters.iter().enumerate() {
            let now = later.waiters.iter().position(|(owner, _)| owner == waiter);
            let Some(now) = now.filter(|_| *place_ends > later.at) else { continue };
            let new_holder = Some(&later.holder).filter(|it| !it.is_empty() && **it != self.holder);
            let before = later.waiters[..now].iter().map(|(owner, _)| owner).chain(new_holder);
            let was_before =
                |it: &String| self.waiters[..place].iter().any(|(owner, _)| owner == it);
            passed.extend(before.filter(|it| !was_before(it)).map(|by| (&**waiter, &**by)));
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At that time, with places that end at 100.
    fn queue(at: u64, holder: &str, waiters: &[&str]) -> FairQueue {
        let waiters = waiters.iter().map(|owner| ((*owner).to_owned(), 100)).collect();
        FairQueue { at, holder: holder.to_owned(), waiters }
    }

    #[test]
    fn a_waiter_that_another_goes_before_is_found() {
        let before = queue(0, "a", &["b", "c", "d"]);
        for (later, passed) in [
            (queue(1, "a", &["b", "c", "d", "e"]), &[][..]),
            (queue(1, "b", &["c", "d"]), &[]),
            (queue(1, "", &["d", "a"]), &[]),
            (queue(1, "c", &["d", "b2", "a"]), &[]),
            (queue(1, "e", &[]), &[]),
            // Behind it, not in the queue, in the queue, and a newcomer.
            (queue(1, "d", &["b", "c"]), &[("b", "d"), ("c", "d")]),
            (queue(1, "e", &["d"]), &[("d", "e")]),
            (queue(1, "a", &["c", "b", "d"]), &[("b", "c")]),
            (queue(1, "a", &["b", "c", "e", "d"]), &[("d", "e")]),
            // A dead waiter has no place.
            (queue(100, "c", &["b"]), &[]),
            (queue(99, "c", &["b"]), &[("b", "c")]),
        ] {
            assert_eq!(before.passed(&later), passed, "{later:?}");
        }
    }
}
