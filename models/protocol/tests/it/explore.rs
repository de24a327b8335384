//! Running the explorer.

use std::sync::Arc;
use std::thread::available_parallelism;

use lock_protocol_model::{Bug, Faults, Kind, Network, Protocol, Reached};
use stateright::{Checker, HasDiscoveries, Model};

/// No faults but those of the network: loss, delay and reordering.
pub(crate) const NONE: Faults =
    Faults { duplicates: 0, crashes: 0, restarts: 0, drift: 0, pauses: 0 };

/// A run over an asynchronous network with clients that begin so many acquires each.
pub(crate) fn run(kind: Kind, acquires: &[u8], ticks: u8, faults: Faults) -> Protocol {
    Protocol {
        kind,
        acquires: acquires.to_vec(),
        ticks,
        network: Network::Asynchronous,
        effects: faults.pauses > 0,
        faults,
        bug: None,
        reached: Arc::new(Reached::default()),
    }
}

/// Visits all states. Every property must hold, and every reachable step but those in `unreachable` must be reached.
#[track_caller]
pub(crate) fn holds(protocol: Protocol, unreachable: &[u16]) {
    let reached = Arc::clone(&protocol.reached);
    let shown = format!(
        "{:?} {:?}, {} ticks, {:?}, {:?}",
        protocol.kind, protocol.acquires, protocol.ticks, protocol.network, protocol.faults
    );
    let checker = protocol.checker().threads(threads());
    // A property that fails ends the run; one that is reached does not.
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{} states ({shown})", checker.unique_state_count());
    checker.assert_properties();
    let may_miss = |name: &&str| {
        let is_its = |(step, its): &(u16, &str)| its == name && unreachable.contains(step);
        Reached::NAMES.iter().any(is_its)
    };
    let missing: Vec<_> = reached.missing().into_iter().filter(|name| !may_miss(name)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// Explores until the property fails.
#[track_caller]
pub(crate) fn fails(protocol: Protocol, bug: Bug, property: &'static str) {
    let protocol = Protocol { bug: Some(bug), ..protocol };
    let until = HasDiscoveries::AllOf([property].into());
    let checker = protocol.checker().threads(threads()).finish_when(until).spawn_bfs().join();
    let steps = checker.discovery(property).map(|path| path.into_actions());
    let states = checker.unique_state_count();
    let Some(steps) = steps else { panic!("{bug:?}: {property:?} holds in {states} states") };
    println!("{bug:?}: {property:?} fails after {} steps, {states} states seen", steps.len());
}

fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}
