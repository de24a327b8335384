//! Runs a sequence on both stores and compares what they answer.

use lock_runtime::admin::Inspection;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Semaphore;

use crate::contract::differential::compare::raised;
use crate::contract::differential::ears::Ears;
use crate::contract::differential::plan::{NAMES, Op, Pace, Sequence, What};
use crate::prelude::*;

pub(crate) const TIMEOUT: Duration = secs(10);

/// Rounds under way at once; more would only wait for each other.
const SIDE_BY_SIDE: usize = 6;

/// The slowest pace: a round may take two seconds.
const SLOWEST: u32 = 32;

/// Both stores, each with a second view of another process, and what was seen so far.
pub(crate) struct Stores {
    pub(crate) memory: [MemoryStore; 2],
    pub(crate) redis: [RedisStore; 2],
    pub(crate) raw: RawClient,
    rounds: Semaphore,
    /// What the machine keeps up with, as far as is known.
    pace: AtomicU32,
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
pub(crate) enum Answer {
    Taken(AcquireReply),
    Renewed(Vec<Ownership>),
    Released(ReleaseReply),
    Number(u64),
    Done,
    Inspected(Inspection),
}

pub(crate) type Answered = Result<Answer, StoreError>;

/// One of the two stores as a sequence knows it.
pub(crate) struct Side<'a> {
    pub(crate) store: &'a dyn Store,
    /// The highest token that each name is known to have handed out.
    pub(crate) tokens: [u64; NAMES],
}

pub(crate) struct Run<'a> {
    pub(crate) stores: &'a Stores,
    pub(crate) sequence: &'a Sequence,
    pub(crate) client: String,
    pub(crate) keys: [LockKey; NAMES],
    pub(crate) memory: Side<'a>,
    pub(crate) redis: Side<'a>,
    pub(crate) ears: Vec<Ears>,
    pub(crate) pace: Pace,
    too_slow: bool,
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
            pace: AtomicU32::new(1),
            seen: Mutex::default(),
        }
    }

    /// Runs a sequence, again if the machine was too slow for it.
    pub(crate) async fn run(&self, sequence: &Sequence) -> Outcome {
        // The later tries leave the machine to fewer others, the last two to none, and take their time. What was too slow once
        // is for most of the others, too: they begin with that pace.
        for side_by_side in [SIDE_BY_SIDE, SIDE_BY_SIDE / 2, 1, 1] {
            let pace = Pace(self.pace.load(Relaxed));
            let connections = self.connections().await;
            match self.run_once(sequence, (SIDE_BY_SIDE / side_by_side) as u32, pace).await {
                // A store that connects again tells all its listeners.
                Outcome::Differs(_) if self.connections().await != connections => {}
                Outcome::TooSlow => {
                    self.pace.fetch_max((2 * pace.0).min(SLOWEST), Relaxed);
                    sleep(pace.short()).await;
                }
                outcome => return outcome,
            }
        }
        Outcome::TooSlow
    }

    /// How many connections the server has taken so far.
    async fn connections(&self) -> String {
        let stats: String = self.raw.get(&["INFO", "stats"]).await;
        let taken = stats.lines().find(|line| line.starts_with("total_connections_received:"));
        taken.expect("the server counts its connections").to_owned()
    }

    async fn run_once(&self, sequence: &Sequence, permits: u32, pace: Pace) -> Outcome {
        let id = fastrand::u64(..);
        let key = |name: usize| LockKey::new(format!("{id:x}:{name}")).unwrap();
        let mut run = Run {
            stores: self,
            sequence,
            client: client_id(),
            keys: std::array::from_fn(key),
            memory: Side { store: &self.memory[0], tokens: [0; NAMES] },
            redis: Side { store: &self.redis[0], tokens: [0; NAMES] },
            ears: Vec::new(),
            pace,
            too_slow: false,
        };
        run.listen().await;
        for (number, round) in sequence.rounds.iter().enumerate() {
            let permit = self.rounds.acquire_many(permits).await.unwrap();
            let started = Instant::now();
            let result = run.round(round, started + pace.round()).await;
            drop(permit);
            match result {
                Err(_) | Ok(()) if run.too_slow => return Outcome::TooSlow,
                Err(problem) => return Outcome::Differs(format!("round {number}: {problem}")),
                Ok(()) => {}
            }
            sleep(pace.short() + ms(20)).await;
            if let Err(problem) = run.no_more_notices() {
                return Outcome::Differs(format!("after round {number}: {problem}"));
            }
        }
        Outcome::Alike
    }

    pub(crate) fn note(&self, what: String) {
        *self.seen.lock().unwrap().entry(what).or_default() += 1;
    }
}

impl Run<'_> {
    async fn round(&mut self, round: &[Op], until: Instant) -> Result<(), String> {
        for (number, op) in round.iter().enumerate() {
            self.ears.iter_mut().for_each(Ears::forget_past);
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
        let of = |what: &What| what.owner(themes, &self.client);
        let store = side.store;
        Ok(match op {
            Op::Acquire { what, lease, tokens, place, joins } => {
                let request = AcquireRequest::new(
                    what.target(themes, &self.keys),
                    of(what),
                    lease.duration(self.pace),
                    TIMEOUT,
                )
                .with_tokens(*tokens)
                .with_place(place.map(|place| place.duration(self.pace)))
                .with_joins(*joins);
                Answer::Taken(store.acquire(request).await?)
            }
            Op::Renew(all) => {
                let requests = all.iter().map(|(what, lease)| {
                    let lease = lease.map_or(Duration::ZERO, |lease| lease.duration(self.pace));
                    RenewRequest::new(what.target(themes, &self.keys), of(what), lease)
                });
                Answer::Renewed(store.renew(requests.collect(), TIMEOUT).await?)
            }
            Op::Release(what, keep) => {
                let request =
                    ReleaseRequest::new(what.target(themes, &self.keys), of(what), TIMEOUT)
                        .with_keep(keep.map_or(Duration::ZERO, |keep| keep.duration(self.pace)));
                Answer::Released(store.release(request).await?)
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
}
