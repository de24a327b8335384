//! The measured cases.

mod attribute;
mod hot_key;
mod layer;
mod load;
mod nested;
mod overhead;
mod own_keys;
mod pair;

use crate::Result;
use crate::bench::Bench;
use crate::contender::{Bare, Contender, Ours, Peer};
use crate::record::{Record, Target, Unit};

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Pair,
    OwnKeys,
    HotKey,
    Nested,
    Attribute,
    Layer,
    Load,
}

impl Case {
    /// In the order in which they are run.
    pub(crate) const ALL: [Self; 7] = [
        Self::Pair,
        Self::OwnKeys,
        Self::HotKey,
        Self::Nested,
        Self::Attribute,
        Self::Layer,
        Self::Load,
    ];

    /// As in `--only`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::OwnKeys => "own-keys",
            Self::HotKey => "hot-key",
            Self::Nested => "nested",
            Self::Attribute => "attribute",
            Self::Layer => "layer",
            Self::Load => "load",
        }
    }

    /// Measures it.
    pub(crate) async fn run(self, bench: &Bench) -> Result<Vec<Record>> {
        match self {
            Self::Pair => pair::run(bench).await,
            Self::OwnKeys => own_keys::run(bench).await,
            Self::HotKey => hot_key::run(bench).await,
            Self::Nested => nested::run(bench).await,
            Self::Attribute => attribute::run(bench).await,
            Self::Layer => layer::run(bench).await,
            Self::Load => load::run(bench).await,
        }
    }
}

/// The order of contenders in a round. It is reversed with each round, so that a machine that slows down or
/// speeds up favours none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Floor,
    Ours,
    Peer,
}

fn turns(round: usize) -> [Turn; 3] {
    let mut turns = [Turn::Floor, Turn::Ours, Turn::Peer];
    if !round.is_multiple_of(2) {
        turns.reverse();
    }
    turns
}

/// Records of one figure by floor, ours and peer, over the same rounds. The target applies to ours.
fn beside(
    case: &str,
    name: &'static str,
    unit: Unit,
    [floor, ours, peer]: [Vec<f64>; 3],
    target: Option<Target>,
) -> [Record; 3] {
    let mut ours = Record::new(case, Ours::NAME, name, unit, ours).over(&floor);
    if let Some(target) = target {
        ours = ours.target(target);
    }
    let peer = Record::new(case, Peer::NAME, name, unit, peer).over(&floor);
    [Record::new(case, Bare::NAME, name, unit, floor), ours, peer]
}
