//! Runs a sequence on both stores and compares what they answer.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_runtime::store::{
    AcquireReply, AcquireRequest, CountRequest, Inspection, LatchRequest, LockKind, Ownership,
    ReleaseReply, ReleaseRequest, RenewRequest, Subscription, Target,
};
use lock_runtime::{FencingToken, LockKey, MemoryStore, RedisStore, Store, StoreError};
use lock_tests::{RawClient, RedisServer};
use tokio::sync::Semaphore;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, timeout};

use crate::plan::{Listeners, NAMES, OWNERS, Op, SHORT, Sequence, Theme, What, owner, target};

/// A round that takes longer says nothing: a short lease may have ended in one store and not yet in
/// the other. It is also how far remaining times may be apart.
const ROUND: Duration = Duration::from_millis(60);

const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a notice that must come may take.
const NOTICE: Duration = Duration::from_secs(1);

/// Rounds under way at once; more would only wait for each other.
const SIDE_BY_SIDE: usize = 6;

/// Both stores, each with a second view of another process, and what was seen so far.
pub(crate) struct Stores {
    memory: [MemoryStore; 2],
    redis: [RedisStore; 2],
    raw: RawClient,
    rounds: Semaphore,
    pub(crate) seen: Mutex<BTreeMap<String, usize>>,
}

/// What came of a sequence.
#[derive(Debug)]
pub(crate) enum Outcome {
    Alike,
    Differs(String),
    TooSlow,
}

/// What an operation answered.
#[derive(Debug)]
enum Answer {
    Taken(AcquireReply),
    Renewed(Vec<Ownership>),
    Released(ReleaseReply),
    Number(u64),
    Done,
    Inspected(Inspection),
}

type Answered = Result<Answer, StoreError>;

/// One of the two stores as a sequence knows it.
struct Side<'a> {
    store: &'a dyn Store,
    /// The highest token that each name is known to have handed out.
    tokens: [u64; NAMES],
}

struct Run<'a> {
    stores: &'a Stores,
    sequence: &'a Sequence,
    client: String,
    keys: [LockKey; NAMES],
    memory: Side<'a>,
    redis: Side<'a>,
    ears: Vec<Ears>,
    too_slow: bool,
}

/// The same subscription in both stores.
struct Ears {
    channel: String,
    /// Of several channels. One notice of many says nothing of the others, which may come later.
    several: bool,
    memory: Subscription,
    redis: Subscription,
}

impl Stores {
    pub(crate) async fn start(server: &RedisServer) -> Self {
        let memory = MemoryStore::new();
        let redis = async || RedisStore::connect(&server.url()).await.unwrap();
        Self {
            memory: [memory.clone(), memory.peer()],
            redis: [redis().await, redis().await],
            raw: server.client(),
            rounds: Semaphore::new(SIDE_BY_SIDE),
            seen: Mutex::default(),
        }
    }

    /// Runs a sequence, again if the machine was too slow for it.
    pub(crate) async fn run(&self, sequence: &Sequence) -> Outcome {
        for _ in 0..4 {
            match self.run_once(sequence).await {
                Outcome::TooSlow => sleep(SHORT).await,
                outcome => return outcome,
            }
        }
        Outcome::TooSlow
    }

    async fn run_once(&self, sequence: &Sequence) -> Outcome {
        let id = fastrand::u64(..);
        let key = |name: usize| LockKey::new(format!("{id:x}:{name}")).unwrap();
        let mut run = Run {
            stores: self,
            sequence,
            client: format!("{id:x}"),
            keys: std::array::from_fn(key),
            memory: Side { store: &self.memory[0], tokens: [0; NAMES] },
            redis: Side { store: &self.redis[0], tokens: [0; NAMES] },
            ears: Vec::new(),
            too_slow: false,
        };
        run.listen().await;
        for (number, round) in sequence.rounds.iter().enumerate() {
            let permit = self.rounds.acquire().await.unwrap();
            let started = Instant::now();
            let result = run.round(round, started + ROUND).await;
            drop(permit);
            match result {
                Err(_) | Ok(()) if run.too_slow => return Outcome::TooSlow,
                Err(problem) => return Outcome::Differs(format!("round {number}: {problem}")),
                Ok(()) => {}
            }
            sleep(SHORT + Duration::from_millis(20)).await;
            if let Err(problem) = run.no_more_notices() {
                return Outcome::Differs(format!("after round {number}: {problem}"));
            }
        }
        Outcome::Alike
    }

    fn note(&self, what: String) {
        *self.seen.lock().unwrap().entry(what).or_default() += 1;
    }
}

impl Run<'_> {
    async fn listen(&mut self) {
        let view = match self.sequence.listeners {
            Listeners::Nobody => return,
            Listeners::Here => 0,
            Listeners::Elsewhere => 1,
        };
        let mut targets = Vec::new();
        for (name, theme) in self.sequence.themes.iter().enumerate() {
            let mut kinds = theme.kinds().to_vec();
            kinds.dedup();
            if *theme == Theme::Anything {
                kinds.push(LockKind::Latch);
            }
            for kind in kinds {
                let target = target(kind, &self.keys, name, 1);
                match kind {
                    LockKind::Fair => {
                        targets.extend((0..OWNERS).map(|number| {
                            Arc::new(target.for_waiter(&owner(&self.client, number)))
                        }))
                    }
                    _ => targets.push(target),
                }
            }
        }
        let Stores { memory, redis, .. } = self.stores;
        let ears = targets.into_iter().map(async |target| Ears {
            channel: format!("{} {}", target.kind(), target.channel()),
            several: target.kind() == LockKind::Multi,
            memory: memory[view].subscribe(&target, TIMEOUT).await.unwrap(),
            redis: redis[view].subscribe(&target, TIMEOUT).await.unwrap(),
        });
        self.ears = join_all(ears).await;
    }

    async fn round(&mut self, round: &[Op], until: Instant) -> Result<(), String> {
        for (number, op) in round.iter().enumerate() {
            for ears in &mut self.ears {
                ears.memory.forget_past();
                if ears.several {
                    ears.redis.forget_past();
                }
            }
            let memory = self.answer(&self.memory, op).await;
            let redis = self.answer(&self.redis, op).await;
            // Before waiting for notices, or one that never comes would look like slowness.
            self.too_slow |= Instant::now() > until;
            let compared = self.compare(op, &memory, &redis);
            let heard = match compared {
                Ok(()) => self.hear().await,
                differs => differs,
            };
            heard.map_err(|problem| {
                format!("{number}. {op:?}: {problem}\n  memory: {memory:?}\n  redis: {redis:?}")
            })?;
        }
        let compared = self.compare_shown().await;
        self.too_slow |= Instant::now() > until;
        compared
    }

    async fn answer(&self, side: &Side<'_>, op: &Op) -> Answered {
        let themes = &self.sequence.themes;
        let key = |name: usize| &self.keys[name];
        let of = |number: usize| owner(&self.client, number);
        let store = side.store;
        Ok(match op {
            Op::Acquire { what, lease, tokens, place, joins } => {
                let request = AcquireRequest {
                    target: what.target(themes, &self.keys),
                    owner: of(what.owner),
                    lease: lease.duration(),
                    tokens: *tokens,
                    place: place.map(|place| place.duration()),
                    joins: *joins,
                    timeout: TIMEOUT,
                };
                Answer::Taken(store.acquire(request).await?)
            }
            Op::Renew(all) => {
                let requests = all.iter().map(|(what, lease)| RenewRequest {
                    target: what.target(themes, &self.keys),
                    owner: of(what.owner),
                    lease: lease.duration(),
                });
                Answer::Renewed(store.renew(requests.collect(), TIMEOUT).await?)
            }
            Op::Release(what) => {
                let target = what.target(themes, &self.keys);
                let request = ReleaseRequest { target, owner: of(what.owner), timeout: TIMEOUT };
                Answer::Released(store.release(request).await?)
            }
            Op::ShowCounts(all) => {
                let requests = all.iter().map(|(what, count)| CountRequest {
                    target: what.target(themes, &self.keys),
                    owner: of(what.owner),
                    count: *count,
                });
                store.show_counts(requests.collect(), TIMEOUT).await?;
                Answer::Done
            }
            Op::Latch(name, request) => {
                let latch = Target::latch(key(*name).clone());
                Answer::Number(store.latch(&latch, *request, TIMEOUT).await?)
            }
            Op::RaiseToken { name, above } => {
                let token = FencingToken::new(raised(side.tokens[*name], *above));
                store.raise_token(&Target::mutex(key(*name).clone()), token, TIMEOUT).await?;
                Answer::Done
            }
            Op::Inspect(name) => Answer::Inspected(store.inspect(key(*name), TIMEOUT).await?),
            Op::ForceRelease(name) => {
                Answer::Number(u64::from(store.force_release(key(*name), TIMEOUT).await?))
            }
        })
    }

    fn compare(&mut self, op: &Op, memory: &Answered, redis: &Answered) -> Result<(), String> {
        let alike = match (memory, redis) {
            (Err(one), Err(other)) => {
                (one.kind(), one.to_string()) == (other.kind(), other.to_string())
            }
            (Ok(one), Ok(other)) => match (one, other) {
                (Answer::Taken(one), Answer::Taken(other)) => self.taken_alike(op, *one, *other)?,
                (Answer::Renewed(one), Answer::Renewed(other)) => {
                    self.note_renewals(op, one);
                    one == other
                }
                (Answer::Released(one), Answer::Released(other)) => one == other,
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
        let op = match op {
            Op::Acquire { what, joins, .. } => {
                format!("{} {}", kind(what), if *joins { "joins" } else { "takes" })
            }
            Op::Release(what) => kind(what).to_string(),
            Op::Latch(_, LatchRequest::SetCount(_)) => "set".to_owned(),
            Op::Latch(_, request) => format!("{request:?}"),
            _ => String::new(),
        };
        let answer = match answer {
            Ok(Answer::Taken(AcquireReply::Granted(_))) => "Granted".to_owned(),
            Ok(Answer::Taken(AcquireReply::Held(left))) if left.is_some() => "Held".to_owned(),
            Ok(Answer::Taken(reply)) => format!("{reply:?}"),
            Ok(Answer::Released(reply)) => format!("{reply:?}"),
            Ok(Answer::Inspected(one)) => format!("inspected {:?}", one.kind),
            Ok(answer) => format!("{answer:?}"),
            Err(error) => error.to_string(),
        };
        self.stores.note(format!("{op}: {answer}"));
    }

    fn note_renewals(&self, op: &Op, held: &[Ownership]) {
        let Op::Renew(all) = op else { return };
        for ((what, _), held) in all.iter().zip(held) {
            self.stores.note(format!("{} renewed: {held:?}", what.kind(&self.sequence.themes)));
        }
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
            (AcquireReply::Held(one), AcquireReply::Held(other)) => return Ok(near(one, other)),
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
        memory.kind == redis.kind
            && holders(memory) == holders(redis)
            && near(memory.remaining, redis.remaining)
            && memory.waiting == redis.waiting
            && token(&self.memory, memory)
            && token(&self.redis, redis)
    }

    /// Whoever is told by one store is told by the other.
    async fn hear(&mut self) -> Result<(), String> {
        for ears in &mut self.ears {
            let told = unconstrained(ears.memory.notified()).now_or_never().is_some();
            if told && timeout(NOTICE, ears.redis.notified()).await.is_err() {
                return Err(format!("memory alone told {}", ears.channel));
            }
            if !told {
                ears.silent()?;
            } else {
                self.stores.note("told".to_owned());
            }
        }
        Ok(())
    }

    /// A notice that came late was one too many.
    fn no_more_notices(&mut self) -> Result<(), String> {
        for ears in &mut self.ears {
            ears.silent()?;
        }
        Ok(())
    }

    /// The names show the same to whoever looks.
    async fn compare_shown(&self) -> Result<(), String> {
        let permits = |key: &LockKey| Target::semaphore(key.clone(), NonZeroU32::MIN);
        let mut look = vec!["EVAL".to_owned(), SHOWN.to_owned(), (2 * NAMES).to_string()];
        for key in &self.keys {
            look.extend([key.to_string(), permits(key).companions()[0].clone()]);
        }
        let look: Vec<&str> = look.iter().map(String::as_str).collect();
        let all: Vec<(BTreeMap<String, u32>, u64)> = self.stores.raw.get(&look).await;
        for (key, (redis, redis_left)) in self.keys.iter().zip(all) {
            let redis_left = Duration::from_millis(redis_left);
            let (memory, memory_left) = self.stores.memory[0].holders(key.as_str());
            let memory: BTreeMap<String, u32> = memory.into_iter().collect();
            if memory != redis || !near(Some(memory_left), Some(redis_left)) {
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

impl Ears {
    /// Nobody was told by Redis.
    fn silent(&mut self) -> Result<(), String> {
        let told = unconstrained(self.redis.notified()).now_or_never().is_some();
        if told && !self.several {
            return Err(format!("redis alone told {}", self.channel));
        }
        Ok(())
    }
}

fn raised(last: u64, above: bool) -> u64 {
    if above { last + 5_000_000 } else { 1 }
}

/// About as long.
fn near(one: Option<Duration>, other: Option<Duration>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= ROUND,
        (one, other) => one == other,
    }
}
