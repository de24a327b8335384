//! The measured cases.

mod attribute;
mod layer;
mod load;
mod overhead;

use crate::Result;
use crate::record::Record;
use crate::server::ServerCase;
use crate::timing::Timing;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
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
        Self::Server(ServerCase::Pair),
        Self::Server(ServerCase::OwnKeys),
        Self::Server(ServerCase::HotKey),
        Self::Server(ServerCase::Fair),
        Self::Server(ServerCase::Nested),
        Self::Server(ServerCase::Cluster),
        Self::Server(ServerCase::Holds),
        Self::Server(ServerCase::Waiters),
        Self::Server(ServerCase::Survey),
        Self::InProcess(InProcess::Attribute),
        Self::InProcess(InProcess::Layer),
        Self::InProcess(InProcess::Load),
    ];

    /// As in `--only`.
    pub(crate) fn name(self) -> &'static str {
        match self {
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

/// A call of a case that compares forms of one call: each form beyond the call by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    AttributeByHand,
    Attribute,
    LayerByHand,
    Layer,
    HttpLayer,
    RoutesLayer,
}

impl Call {
    /// As in the records of its case.
    const fn form(self) -> &'static str {
        match self {
            Self::AttributeByHand | Self::LayerByHand => "by hand",
            Self::Attribute => "attribute",
            Self::Layer => "any",
            Self::HttpLayer => "http",
            Self::RoutesLayer => "routes",
        }
    }
}

impl Call {
    pub(crate) const ALL: [Self; 6] = [
        Self::AttributeByHand,
        Self::Attribute,
        Self::LayerByHand,
        Self::Layer,
        Self::HttpLayer,
        Self::RoutesLayer,
    ];

    /// Differs from that of all other calls.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AttributeByHand => "attribute-by-hand",
            Self::LayerByHand => "layer-by-hand",
            _ => self.form(),
        }
    }

    /// The same call, written by hand.
    pub(crate) const fn by_hand(self) -> Self {
        match self {
            Self::AttributeByHand | Self::Attribute => Self::AttributeByHand,
            Self::LayerByHand | Self::Layer | Self::HttpLayer | Self::RoutesLayer => {
                Self::LayerByHand
            }
        }
    }

    /// Makes so many calls, one after the other.
    pub(crate) async fn run(self, count: u32) -> Result<()> {
        match self {
            Self::AttributeByHand | Self::Attribute => attribute::calls(self, count).await,
            _ => layer::calls(self, count).await,
        }
    }
}

/// Makes so many calls of one of the forms.
async fn only(forms: &[overhead::Form<'_>], call: Call, count: u32) -> Result<()> {
    let form = forms.iter().find(|form| form.name() == call.form());
    form.ok_or("no such form")?.calls(count).await.map(drop)
}
