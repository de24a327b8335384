//! The measured cases.

mod attribute;
mod layer;
mod load;
mod overhead;

use crate::Result;
use crate::record::Record;
#[cfg(feature = "server")]
use crate::server::ServerCase;
use crate::timing::Timing;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    #[cfg(feature = "server")]
    Server(ServerCase),
    InProcess(InProcess),
}

/// A case without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InProcess {
    Attribute,
    Layer,
    Load,
}

impl Case {
    /// In the order in which they are run.
    pub(crate) const ALL: &'static [Self] = &[
        #[cfg(feature = "server")]
        Self::Server(ServerCase::Pair),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::OwnKeys),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::HotKey),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::Fair),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::Nested),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::Cluster),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::Holds),
        #[cfg(feature = "server")]
        Self::Server(ServerCase::Waiters),
        Self::InProcess(InProcess::Attribute),
        Self::InProcess(InProcess::Layer),
        Self::InProcess(InProcess::Load),
    ];

    /// As in `--only`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "server")]
            Self::Server(case) => case.name(),
            Self::InProcess(InProcess::Attribute) => "attribute",
            Self::InProcess(InProcess::Layer) => "layer",
            Self::InProcess(InProcess::Load) => "load",
        }
    }
}

impl InProcess {
    /// Measures the case.
    pub(crate) async fn run(self, timing: Timing) -> Result<Vec<Record>> {
        match self {
            Self::Attribute => attribute::run(timing).await,
            Self::Layer => layer::run(timing).await,
            Self::Load => load::run(timing).await,
        }
    }
}
