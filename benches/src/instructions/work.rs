//! The load whose instructions are counted, in a process of its own.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_tests::RedisServer;
use rslock::LockManager;
use tokio::task::JoinSet;

use crate::Result;
use crate::server::contender::{Bare, Contender, Ours, Peer};

/// The option that makes this program run one [`Load`].
pub(super) const WORK: &str = "--work";

/// How long a server in callgrind may take to end.
const SERVER_END: Duration = Duration::from_secs(60);

/// Who makes the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Floor,
    Ours,
    Peer,
}

impl Who {
    pub(super) const ALL: [Self; 3] = [Self::Floor, Self::Ours, Self::Peer];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Floor => Bare::NAME,
            Self::Ours => Ours::NAME,
            Self::Peer => Peer::NAME,
        }
    }
}

/// So many pairs by so many tasks, each with a lock of its own. As text: `ours:64:2048`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(super) who: Who,
    pub(super) tasks: u32,
    pub(super) pairs: u32,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.who.name(), self.tasks, self.pairs)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let load = || {
            let mut parts = text.split(':');
            let name = parts.next()?;
            let who = Who::ALL.into_iter().find(|who| who.name() == name)?;
            let mut number = || parts.next()?.parse().ok().filter(|number| *number > 0);
            Some(Self { who, tasks: number()?, pairs: number()? })
        };
        load().ok_or_else(|| "give a load such as ours:64:2048".to_owned())
    }
}

impl Load {
    /// Starts a server, makes the pairs, and ends the server, so that callgrind reports.
    ///
    /// # Errors
    ///
    /// When a pair fails, or the server does not end.
    pub(crate) fn run(self) -> Result<()> {
        // One thread: callgrind runs one at a time, and which one it picks would change the count.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.pairs_on_a_server())
    }

    async fn pairs_on_a_server(self) -> Result<()> {
        let server = RedisServer::start().await;
        let url = server.url();
        match self.who {
            Who::Floor => {
                let bare = Bare::connect(&url).await?;
                self.pairs(|task| bare.on(&format!("bare:{task}"))).await?;
            }
            Who::Ours => {
                let client = LockClient::connect(&url).await?;
                self.pairs(|task| Ours::new(client.mutex(format!("ours:{task}")))).await?;
                client.shutdown(Duration::from_secs(1)).await;
            }
            Who::Peer => {
                let manager = LockManager::new(vec![url]);
                self.pairs(|task| Peer::new(manager.clone(), format!("peer:{task}"))).await?;
            }
        }
        server.end(SERVER_END).await;
        Ok(())
    }

    async fn pairs<C: Contender>(self, lock: impl Fn(u32) -> C) -> Result<()> {
        let mut tasks = JoinSet::new();
        for task in 0..self.tasks {
            let mut lock = lock(task);
            tasks.spawn(async move {
                for _ in 0..self.pairs / self.tasks {
                    let hold = lock.take().await?;
                    lock.give(hold).await?;
                }
                Result::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}
