//! The loads whose costs are counted, each in a process of its own.

use std::fmt;
use std::process;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockError, LockOptions, Mutex, RwLock};
use lock_tests::RedisServer;
use rslock::LockManager;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::relay::Relay;
use crate::Result;
use crate::case::Call;
use crate::configuration;
use crate::contender::{Bare, Contender, Peer};

/// The option that makes this program run one [`Load`].
pub(super) const WORK: &str = "--work";

/// What the text of a slowed load ends with.
const SLOWED_NAME: &str = ":slowed";

/// How long a server in callgrind may take to end.
const SERVER_END: Duration = Duration::from_secs(60);

/// The time limits of a client if it, or its server, runs in callgrind, which slows it down fifty times, on a busy machine more.
const SLOWED: Duration = Duration::from_secs(600);

/// How long a task has a lock that it [keeps](Locks::Kept): long beside a hand-over.
const KEPT: Duration = Duration::from_micros(5);

/// The contender that makes the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Floor,
    Ours,
    Peer,
}

impl Who {
    pub(super) const ALL: &'static [Self] = &[Self::Floor, Self::Ours, Self::Peer];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Ours => "ours",
            Self::Peer => "rslock",
        }
    }
}

/// The locks that the tasks take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    /// Each task its own, on one server.
    Own,
    /// All tasks the same.
    Shared,
    /// The same, and each keeps it for [`KEPT`].
    Kept,
    /// Each task the read side of its own, on one server.
    Read,
    /// One task takes a lock that it holds already.
    Nested,
    /// Each task its own, spread over the masters of a cluster.
    Spread,
    /// In memory, without a server. One task makes calls that lock and release.
    InMemory(Call),
    /// None: in place of each pair, a configuration is read, of which locks and routes have their options.
    Configured,
}

/// The locks of a load, by their names.
const LOCKS: [(&str, Locks); 13] = [
    ("own", Locks::Own),
    ("shared", Locks::Shared),
    ("kept", Locks::Kept),
    ("read", Locks::Read),
    ("nested", Locks::Nested),
    ("spread", Locks::Spread),
    ("configured", Locks::Configured),
    ("attribute-by-hand", Locks::InMemory(Call::AttributeByHand)),
    ("attribute", Locks::InMemory(Call::Attribute)),
    ("layer-by-hand", Locks::InMemory(Call::LayerByHand)),
    ("any", Locks::InMemory(Call::Layer)),
    ("http", Locks::InMemory(Call::HttpLayer)),
    ("routes", Locks::InMemory(Call::RoutesLayer)),
];

/// So many pairs by so many tasks. As text: `ours:own:64:2048`, with `:slowed` and the addresses of running servers
/// behind that: `ours:own:64:2048:slowed@redis://localhost:7000,redis://localhost:7001`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Load {
    pub(super) who: Who,
    pub(super) locks: Locks,
    pub(super) tasks: u32,
    pub(super) pairs: u32,
    /// Whether the client or its server runs in callgrind. No time limit may pass then, or the count would depend
    /// on the machine.
    pub(super) slowed: bool,
    /// If there is none, the load starts a server of its own.
    pub(super) urls: Vec<String>,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, locks, tasks, pairs, slowed, urls } = self;
        let slowed = if *slowed { SLOWED_NAME } else { "" };
        let name = LOCKS.iter().find(|it| it.1 == *locks).map_or("", |it| it.0);
        write!(f, "{}:{name}:{tasks}:{pairs}{slowed}@{}", who.name(), urls.join(","))
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (load, urls) = text.split_once('@').unwrap_or((text, ""));
        let (load, slowed) = match load.strip_suffix(SLOWED_NAME) {
            Some(load) => (load, true),
            None => (load, false),
        };
        let urls = urls.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect();
        let parsed = || {
            let mut parts = load.split(':');
            let name = parts.next()?;
            let who = *Who::ALL.iter().find(|who| who.name() == name)?;
            let name = parts.next()?;
            let (_, locks) = *LOCKS.iter().find(|it| it.0 == name)?;
            let mut number = || parts.next()?.parse().ok().filter(|number| *number > 0);
            Some(Self { who, locks, tasks: number()?, pairs: number()?, slowed, urls })
        };
        parsed().ok_or_else(|| "give a load such as ours:own:64:2048".to_owned())
    }
}

impl Load {
    /// Makes the pairs. A server that it has started itself has ended then, so that callgrind has reported.
    ///
    /// # Errors
    ///
    /// When a pair fails.
    pub(crate) fn run(self) -> Result<()> {
        // One thread: callgrind runs one at a time, and which one it picks would change the count.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            if let Locks::InMemory(call) = self.locks {
                return tokio::spawn(call.run(self.pairs)).await?;
            }
            if self.locks == Locks::Configured {
                return configuration::repeat(self.pairs);
            }
            if !self.urls.is_empty() {
                return self.all_pairs(&self.urls).await;
            }
            let server = RedisServer::start().await;
            let mut url = server.url();
            if self.has_turns() {
                let relay = Relay::for_server(&url)?;
                url = relay.url()?;
                // Until the process ends.
                thread::spawn(move || {
                    let relayed = relay.run(process::id(), || Ok(false));
                    eprintln!("the relay has ended: {relayed:?}");
                    process::exit(1);
                });
            }
            self.all_pairs(&[url]).await?;
            server.end(SERVER_END).await;
            Ok(())
        })
    }

    /// True if it runs in turns with its server, by a [`Relay`]: its tasks share scripts, and how many do depends on whether the client
    /// or the server runs first.
    pub(super) fn has_turns(&self) -> bool {
        self.slowed && self.tasks > 1
    }

    async fn all_pairs(&self, urls: &[String]) -> Result<()> {
        match self.who {
            Who::Ours => self.ours(urls).await,
            Who::Floor => {
                let bare = Bare::connect(&urls[0]).await?;
                self.each_task(|task| self.by(bare.on(&format!("bare:{task}")))).await
            }
            Who::Peer => {
                let manager = LockManager::new(vec![urls[0].clone()]);
                let peer = |task| Peer::new(manager.clone(), format!("peer:{task}"));
                self.each_task(|task| self.by(peer(task))).await
            }
        }
    }

    async fn ours(&self, urls: &[String]) -> Result<()> {
        let mut builder = LockClient::builder();
        if self.slowed {
            let options = LockOptions::new().wait(SLOWED).lease(Lease::Watchdog(SLOWED));
            builder = builder.command_timeout(SLOWED).store_patience(SLOWED).handoff_window(SLOWED);
            builder = builder.options(options);
        }
        let client = match self.locks {
            Locks::Spread => builder.connect_cluster(urls).await?,
            _ => builder.connect(&urls[0]).await?,
        };
        let count = self.pairs / self.tasks;
        let own = |task| client.mutex(format!("ours:{task}"));
        match self.locks {
            Locks::Own | Locks::Spread => {
                self.each_task(|task| Box::pin(pairs(own(task), count))).await?;
            }
            Locks::Shared => self.each_task(|_| Box::pin(pairs(own(0), count))).await?,
            Locks::Kept => self.each_task(|_| Box::pin(kept_pairs(own(0), count))).await?,
            Locks::Read => {
                let read = |task| client.rw_lock(format!("ours:{task}"));
                self.each_task(|task| Box::pin(reads(read(task), count))).await?;
            }
            Locks::Nested => {
                let guard = own(0).lock().await?;
                guard.run(pairs(own(0), count)).await??;
                guard.release().await?;
            }
            Locks::InMemory(_) | Locks::Configured => {
                return Err("this load needs no server".into());
            }
        }
        client.shutdown(Duration::from_secs(1)).await;
        Ok(())
    }

    /// Runs one task for each number.
    async fn each_task(&self, task: impl Fn(u32) -> Pairs) -> Result<()> {
        let mut tasks: JoinSet<_> = (0..self.tasks).map(task).collect();
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// The pairs of one task of another contender.
    fn by<C: Contender>(&self, mut lock: C) -> Pairs {
        let count = self.pairs / self.tasks;
        Box::pin(async move {
            for _ in 0..count {
                let hold = lock.take().await?;
                lock.give(hold).await?;
            }
            Ok(())
        })
    }
}

/// All pairs of one task.
type Pairs = std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>>;

async fn pairs(mutex: Mutex, count: u32) -> Result<()> {
    for _ in 0..count {
        pair(&mutex).await?;
    }
    Ok(())
}

async fn reads(lock: RwLock, count: u32) -> Result<()> {
    for _ in 0..count {
        lock.read().await?.release().await?;
    }
    Ok(())
}

async fn kept_pairs(mutex: Mutex, count: u32) -> Result<()> {
    for _ in 0..count {
        let guard = mutex.lock().await?;
        let start = Instant::now();
        while start.elapsed() < KEPT {
            std::hint::spin_loop();
        }
        guard.release().await?;
    }
    Ok(())
}

async fn pair(mutex: &Mutex) -> std::result::Result<(), LockError> {
    mutex.lock().await?.release().await
}
