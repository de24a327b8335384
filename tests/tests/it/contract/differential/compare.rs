//! What counts as the same answer.

use lock_runtime::admin::Inspection;

use crate::contract::differential::plan::{NAMES, Op, What};
use crate::contract::differential::stores::{Answer, Answered, Run, Side};
use crate::prelude::*;

impl Run<'_> {
    pub(crate) fn compare(
        &mut self,
        op: &Op,
        memory: &Answered,
        redis: &Answered,
    ) -> Result<(), String> {
        let alike = match (memory, redis) {
            (Err(one), Err(other)) => {
                (one.kind(), one.to_string()) == (other.kind(), other.to_string())
            }
            (Ok(one), Ok(other)) => match (one, other) {
                (Answer::Taken(one), Answer::Taken(other)) => self.taken_alike(op, *one, *other)?,
                (Answer::Renewed(one), Answer::Renewed(other)) => one == other,
                (Answer::Released(one), Answer::Released(other)) => {
                    any_told(*one) == any_told(*other)
                }
                (Answer::Number(one), Answer::Number(other)) => one == other,
                (Answer::Done, Answer::Done) => true,
                (Answer::Inspected(one), Answer::Inspected(other)) => {
                    self.inspected_alike(op, one, other)
                }
                _ => false,
            },
            _ => false,
        };
        if !alike {
            return Err("the answers differ".to_owned());
        }
        if let Op::RaiseToken { name, above } = op {
            for side in [&mut self.memory, &mut self.redis] {
                side.tokens[*name] = side.tokens[*name].max(raised(side.tokens[*name], *above));
            }
        }
        self.note(op, memory);
        Ok(())
    }

    /// Counts what was seen, to know that the sequences get somewhere.
    fn note(&self, op: &Op, answer: &Answered) {
        let kind = |what: &What| what.kind(&self.sequence.themes);
        let inside = |what: &What| what.owner(&self.sequence.themes, "").writer().is_some();
        let seen = match (op, answer) {
            (_, Err(error)) => error.to_string(),
            (Op::Acquire { what, joins, .. }, Ok(Answer::Taken(reply))) => {
                let how = match (joins, inside(what)) {
                    (true, _) => "joins",
                    (_, true) => "takes inside",
                    _ => "takes",
                };
                let reply = format!("{reply:?}");
                format!("{} {how}: {}", kind(what), reply.split('(').next().unwrap())
            }
            (Op::Renew(all), Ok(Answer::Renewed(held))) if all.len() == 1 => {
                format!("{} renewed: {:?}", kind(&all[0].0), held[0])
            }
            (Op::Release(what, keep), Ok(Answer::Released(reply))) => {
                let later = if keep.is_some() { " later" } else { "" };
                format!("{}{later}: {:?}", kind(what), any_told(*reply))
            }
            (_, Ok(Answer::Inspected(one))) => format!("inspected {:?}", one.kind),
            (Op::Latch(_, LatchRequest::SetCount(_)), Ok(answer)) => format!("set {answer:?}"),
            (Op::Latch(_, request), Ok(answer)) => format!("{request:?} {answer:?}"),
            (_, Ok(answer)) => format!("{answer:?}"),
        };
        self.stores.note(seen);
    }

    /// Tokens are compared by their order: each above all earlier ones of its names.
    fn taken_alike(
        &mut self,
        op: &Op,
        memory: AcquireReply,
        redis: AcquireReply,
    ) -> Result<bool, String> {
        let Op::Acquire { what, tokens, .. } = op else { return Ok(false) };
        let (memory, redis) = match (memory, redis) {
            (AcquireReply::Granted(memory), AcquireReply::Granted(redis)) => (memory, redis),
            (AcquireReply::Held(one), AcquireReply::Held(other))
            | (AcquireReply::Behind(one), AcquireReply::Behind(other)) => {
                return Ok(self.near(one, other));
            }
            _ => return Ok(false),
        };
        let target = what.target(&self.sequence.themes, &self.keys);
        let names = self.keys.iter().enumerate().filter(|(_, key)| {
            *key == target.key() || target.members().iter().any(|lock| lock.key() == *key)
        });
        for (name, _) in names {
            for (side, token) in [(&mut self.memory, memory), (&mut self.redis, redis)] {
                let last = &mut side.tokens[name];
                if token.get() <= *last {
                    return Err(format!("token {token} of name {name} after {last}"));
                }
                *last = token.get() + u64::from(*tokens) - 1;
            }
        }
        Ok(true)
    }

    fn inspected_alike(&self, op: &Op, memory: &Inspection, redis: &Inspection) -> bool {
        let Op::Inspect(name) = op else { return false };
        let holders = |one: &Inspection| {
            let mut all: Vec<_> =
                one.holders.iter().map(|hold| (hold.client.clone(), hold.count)).collect();
            all.sort();
            all
        };
        let token = |side: &Side<'_>, one: &Inspection| {
            one.last_token.map_or(0, FencingToken::get) == side.tokens[*name]
        };
        // In memory one counter serves the names that are not used, and tells none of their tokens.
        let is_idle = memory.last_token.is_none() && memory.holders.is_empty();
        memory.kind == redis.kind
            && holders(memory) == holders(redis)
            && self.near(memory.remaining, redis.remaining)
            && memory.waiting == redis.waiting
            && (is_idle || token(&self.memory, memory))
            && token(&self.redis, redis)
    }

    /// About as long.
    fn near(&self, one: Option<Duration>, other: Option<Duration>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => one.abs_diff(other) <= self.pace.round(),
            (one, other) => one == other,
        }
    }

    /// The names show the same to whoever looks.
    pub(crate) async fn compare_shown(&self) -> Result<(), String> {
        let permits = |key: &LockKey| Target::semaphore(key.clone(), NonZeroU32::MIN);
        let mut look = vec!["EVAL".to_owned(), SHOWN.to_owned(), (2 * NAMES).to_string()];
        for key in &self.keys {
            look.extend([key.to_string(), permits(key).companions()[0].clone()]);
        }
        let look: Vec<&str> = look.iter().map(String::as_str).collect();
        let all: Vec<(BTreeMap<String, u32>, u64)> = self.stores.raw.get(&look).await;
        for (key, (redis, redis_left)) in self.keys.iter().zip(all) {
            let redis_left = ms(redis_left);
            let (memory, memory_left) = self.stores.memory[0].holders(key.as_str());
            let memory: BTreeMap<String, u32> = memory.into_iter().collect();
            if memory != redis || !self.near(Some(memory_left), Some(redis_left)) {
                return Err(format!(
                    "{key} shows {memory:?} for {memory_left:?} in memory, and {redis:?} for \
                     {redis_left:?} on redis"
                ));
            }
        }
        Ok(())
    }
}

/// For each name and its permits: who holds it how often, and for how many ms at the most.
const SHOWN: &str = "
    local time, shown = redis.call('TIME'), {}
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for i = 1, #KEYS, 2 do
        local counts, left = {}, 0
        if redis.call('TYPE', KEYS[i]).ok == 'hash' then
            local fields = redis.call('HGETALL', KEYS[i])
            for f = 1, #fields, 2 do
                if fields[f] ~= 'mode' then
                    table.insert(counts, fields[f])
                    table.insert(counts, tonumber(fields[f + 1]))
                end
            end
            left = redis.call('PTTL', KEYS[i])
        else
            local permits = redis.call('ZRANGE', KEYS[i + 1], '(' .. now, '+inf', 'BYSCORE', 'WITHSCORES')
            local by_owner = {}
            for p = 1, #permits, 2 do
                local owner = string.match(permits[p], '^[^:]*:[^:]*')
                by_owner[owner] = (by_owner[owner] or 0) + 1
                left = math.max(left, permits[p + 1] - now)
            end
            for owner, count in pairs(by_owner) do
                table.insert(counts, owner)
                table.insert(counts, count)
            end
        end
        table.insert(shown, {counts, left})
    end
    return shown";

pub(crate) fn raised(last: u64, above: bool) -> u64 {
    if above { last + 5_000_000 } else { 1 }
}

/// The answer to a release with one for all others that were told. Redis counts processes; a store in
/// memory does not know which of its listeners share one.
fn any_told(reply: ReleaseReply) -> ReleaseReply {
    match reply {
        ReleaseReply::Released { others } => ReleaseReply::Released { others: others.min(1) },
        _ => reply,
    }
}
