//! A model of the protocol between clients and the server, for a mutex and a fair mutex.
//!
//! The model has the steps that matter for safety and progress and nothing else: scripts run whole on the server, each
//! client runs one acquire at a time, the network delays, loses, reorders and duplicates, clients crash, and the server
//! may restart without its data. [Stateright](stateright) visits every state that a bounded number of steps can reach and
//! checks the [`properties`](Protocol) in each. The tests run it.
//!
//! | module | what it models |
//! |---|---|
//! | [`terms`] | owner ids, times, and what a run of the explorer may do |
//! | [`server`] | the scripts in `lock-runtime/src/store/redis/scripts` |
//! | [`client`] | `acquire/contend`, `lease`, `lease/releaser`, `owned_hold` of `lock-runtime`, one task in each process |
//! | [`network`] | messages on their way |
//! | [`state`] | all of it, and what went wrong |
//! | [`steps`] | the steps |
//! | [`protocol`] | what each step changes |
//! | [`properties`] | what must hold in every state, and what must be reachable |
//! | [`recovery`] | what happens from a state on when nothing fails any more |
//!
//! Time passes in ticks. Each [`Bug`] of [`terms`] turns one rule off, and the tests expect that a property then fails:
//! they show that the properties can fail.
//!
//! # Not in the model
//!
//! Several tasks of one process and hand-offs between them (`models/tasks` runs the real code for that), Redisson's
//! clients, counts of re-entries, `at_least`, replicas, and requests that share a script.

pub mod client;
pub mod network;
pub mod properties;
pub mod protocol;
pub mod reached;
pub mod recovery;
pub mod server;
pub mod state;
pub mod steps;
pub mod terms;

pub use protocol::Protocol;
pub use reached::Reached;
pub use terms::{Bug, Faults, Kind, Network};
