//! The cases on a server: the contenders on it, and what they are measured at.

pub(crate) mod awake;
pub(crate) mod bench;
pub(crate) mod contender;

mod cluster;
mod drive;
mod fair;
mod holds;
mod hot_key;
mod nested;
mod own_keys;
mod pair;
mod survey;
mod turns;
mod usage;
mod waiters;

use self::bench::Bench;
use crate::Result;
use crate::record::Record;

/// A case that needs a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerCase {
    Pair,
    OwnKeys,
    HotKey,
    Fair,
    Nested,
    Cluster,
    Holds,
    Waiters,
    Survey,
}

impl ServerCase {
    /// As in `--only`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::OwnKeys => "own-keys",
            Self::HotKey => "hot-key",
            Self::Fair => "fair",
            Self::Nested => "nested",
            Self::Cluster => "cluster",
            Self::Holds => "holds",
            Self::Waiters => "waiters",
            Self::Survey => "survey",
        }
    }

    /// Measures the case.
    pub(crate) async fn run(self, bench: &Bench) -> Result<Vec<Record>> {
        match self {
            Self::Pair => pair::run(bench).await,
            Self::OwnKeys => own_keys::run(bench).await,
            Self::HotKey => hot_key::run(bench).await,
            Self::Fair => fair::run(bench).await,
            Self::Nested => nested::run(bench).await,
            Self::Cluster => cluster::run(bench).await,
            Self::Holds => holds::run(bench).await,
            Self::Waiters => waiters::run(bench).await,
            Self::Survey => survey::run(bench).await,
        }
    }
}
