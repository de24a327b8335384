//! Contenders in turns.

use crate::record::{Record, Target, Unit};
use crate::server::contender::{Bare, Contender, Ours, Peer};

/// The order of contenders in a round. It is reversed with each round, so that a machine that slows down or
/// speeds up favours none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Floor,
    Ours,
    Peer,
}

pub(super) fn turns(round: usize) -> [Turn; 3] {
    let mut turns = [Turn::Floor, Turn::Ours, Turn::Peer];
    if !round.is_multiple_of(2) {
        turns.reverse();
    }
    turns
}

/// Records of one figure by floor, ours and peer, over the same rounds. The target applies to ours.
pub(super) fn beside(
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
