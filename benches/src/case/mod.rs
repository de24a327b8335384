//! The cases that only this library has: no other contender takes part.

mod attribute;
mod holds;
mod layer;
mod nested;
mod overhead;
mod waiters;

use lock_tests::RedisServer;

use crate::Result;
use crate::record::Record;
use crate::timing::Timing;

/// As in `--only`, in the order in which they are run.
pub(crate) const CASES: [&str; 5] = ["nested", "holds", "waiters", "attribute", "layer"];

/// Measures a case.
///
/// # Errors
///
/// When there is no such case, or this library fails.
pub(crate) async fn run(case: &str, server: &RedisServer, timing: Timing) -> Result<Vec<Record>> {
    match case {
        "nested" => nested::run(server, timing).await,
        "holds" => holds::run(server).await,
        "waiters" => waiters::run(server, timing).await,
        "attribute" => attribute::run(timing).await,
        "layer" => layer::run(timing).await,
        _ => Err(format!("there is no case `{case}`").into()),
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
