//! What an operator asks of a name: who holds it, and to be rid of that.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::store::redis::RedisStore;
use crate::store::redis::requests::answer::surprise;
use crate::store::redis::scripts::{FORCE_RELEASE, INSPECT};
use crate::store::{HoldKind, Inspection, StoredHold, Target};

/// A name as each of the kinds that have companions.
struct Name {
    fair: Arc<Target>,
    sides: Arc<Target>,
    semaphore: Arc<Target>,
}

impl Name {
    fn new(key: &LockKey) -> Self {
        Self {
            fair: Target::fair(key.clone()),
            sides: Target::side(HoldKind::Write, key.clone()),
            semaphore: Target::semaphore(key.clone(), NonZeroU32::MIN),
        }
    }

    fn queue(&self) -> &[String] {
        &self.fair.companions()[..2]
    }

    fn read_timeouts(&self) -> &str {
        &self.sides.companions()[3]
    }

    fn permits(&self) -> &str {
        &self.semaphore.companions()[0]
    }
}

impl RedisStore {
    pub(crate) async fn look_at(
        &self,
        key: &LockKey,
        timeout: Duration,
    ) -> Result<Inspection, StoreError> {
        let name = Name::new(key);
        let mut call = INSPECT.call(self.link.notices(), 5);
        call.arg(key.as_str()).arg(name.fair.fence_counter()).arg(&name.queue()[1]);
        call.arg(&name.sides.companions()[0]).arg(name.permits()).arg(name.read_timeouts());
        let answer = self.run(&INSPECT, call, timeout).await?;
        match &answer {
            Value::Array(parts) => inspection(parts).ok_or_else(|| surprise(&answer)),
            other => Err(surprise(other)),
        }
    }

    pub(crate) async fn free(&self, key: &LockKey, timeout: Duration) -> Result<bool, StoreError> {
        let name = Name::new(key);
        let mut call = FORCE_RELEASE.call(self.link.notices(), 4);
        call.arg(key.as_str()).arg(name.queue()).arg(name.permits());
        call.arg(name.fair.channel()).arg(name.sides.channel()).arg(name.semaphore.channel());
        call.arg(name.read_timeouts());
        match self.run(&FORCE_RELEASE, call, timeout).await? {
            Value::Int(freed) => Ok(freed == 1),
            other => Err(surprise(&other)),
        }
    }
}

fn inspection(parts: &[Value]) -> Option<Inspection> {
    let [
        Value::BulkString(kind),
        Value::Int(left),
        Value::BulkString(last),
        Value::Int(waiting),
        holders @ ..,
    ] = parts
    else {
        return None;
    };
    let kind = match &kind[..] {
        b"" => None,
        b"mutex" => Some(HoldKind::Mutex),
        b"fair" => Some(HoldKind::Fair),
        b"read" => Some(HoldKind::Read),
        b"write" => Some(HoldKind::Write),
        b"semaphore" => Some(HoldKind::Semaphore),
        b"latch" => Some(HoldKind::Latch),
        _ => return None,
    };
    let holder = |pair: &[Value]| match pair {
        [Value::BulkString(owner), Value::Int(count)] => {
            // Redisson's permits are random bytes that name nobody, and enough to release them.
            let owner = std::str::from_utf8(owner).ok().filter(|owner| owner.contains(':'));
            Some(StoredHold::new(owner.unwrap_or(""), u32::try_from(*count).unwrap_or(u32::MAX)))
        }
        _ => None,
    };
    let last = std::str::from_utf8(last).ok().and_then(|last| last.parse().ok());
    Some(Inspection {
        kind,
        holders: holders.chunks(2).map(holder).collect::<Option<_>>()?,
        remaining: kind.and(u64::try_from(*left).ok().map(Duration::from_millis)),
        last_token: last.map(FencingToken::new),
        waiting: usize::try_from(*waiting).unwrap_or(0),
    })
}
