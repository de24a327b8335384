//! Chooses faults and injects them.

use std::time::Duration;

use lock_tests::history::{May, Recorder};
use lock_tests::{Proxy, RawClient, RedisServer, eventually};
use tokio::time::sleep;

use crate::round::{LEASE, Party, SOON};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The network swallows what a process sends and is sent.
    BlackHole,
    /// The network keeps it, and delivers it later.
    Stall,
    /// The network is slow.
    SlowNetwork,
    /// Connections of a process are reset.
    Reset,
    /// Answers to a process get lost.
    LostAnswers,
    /// Requests of a process arrive twice.
    DoubledRequests,
    /// A process stands still.
    StoppedProcess,
    /// A process is killed, and another one takes its place.
    KilledProcess,
    /// The server stands still.
    StoppedServer,
    /// The server is killed and comes back without its data.
    LostServer,
    /// An operator deletes all keys.
    Flushed,
    /// The server closes all connections.
    ClosedConnections,
    /// The server closes connections with subscriptions.
    ClosedSubscriptions,
    /// The server forgets its scripts.
    ForgottenScripts,
    /// The server keeps writing commands back, as in a fail-over.
    PausedWrites,
    /// The server has no memory left.
    OutOfMemory,
    /// Another client keeps the server busy.
    BusyServer,
}

const FAULTS: [Fault; 17] = [
    Fault::BlackHole,
    Fault::Stall,
    Fault::SlowNetwork,
    Fault::Reset,
    Fault::LostAnswers,
    Fault::DoubledRequests,
    Fault::StoppedProcess,
    Fault::KilledProcess,
    Fault::StoppedServer,
    Fault::LostServer,
    Fault::Flushed,
    Fault::ClosedConnections,
    Fault::ClosedSubscriptions,
    Fault::ForgottenScripts,
    Fault::PausedWrites,
    Fault::OutOfMemory,
    Fault::BusyServer,
];

/// What the history calls the moment in which a server that is killed loses its data.
const LOSS: &str = "data lost";

/// A fault, whom it befalls, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) fault: Fault,
    /// The party, if the fault befalls one.
    pub(crate) party: usize,
    pub(crate) lasts: Duration,
    /// The time without a fault after it.
    pub(crate) pause: Duration,
}

impl Plan {
    /// The next one for these choices.
    pub(crate) fn next(choices: &mut fastrand::Rng, parties: usize) -> Self {
        let fault = FAULTS[choices.usize(..FAULTS.len())];
        // Shorter than a lease, or longer.
        let lasts = LEASE.mul_f32(0.1 + 1.7 * choices.f32());
        // Every other time for so long that no fault is to blame for what happens.
        let calm = choices.bool();
        let pause = LEASE.mul_f32(0.5 + choices.f32() + if calm { 4.0 } else { 0.0 });
        Self { fault, party: choices.usize(..parties), lasts, pause }
    }
}

impl Fault {
    /// What it is called in the history.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BlackHole => "network swallows everything",
            Self::Stall => "network delivers late",
            Self::SlowNetwork => "slow network",
            Self::Reset => "connections reset",
            Self::LostAnswers => "answers lost",
            Self::DoubledRequests => "requests arrive twice",
            Self::StoppedProcess => "process stands still",
            Self::KilledProcess => "process killed",
            Self::StoppedServer => "server stands still",
            Self::LostServer => "server killed, data lost",
            Self::Flushed => "all keys deleted",
            Self::ClosedConnections => "server closes connections",
            Self::ClosedSubscriptions => "server closes subscriptions",
            Self::ForgottenScripts => "server forgets scripts",
            Self::PausedWrites => "server keeps writes back",
            Self::OutOfMemory => "server out of memory",
            Self::BusyServer => "server busy",
        }
    }

    /// True if only one party notices it.
    fn befalls_a_party(self) -> bool {
        matches!(
            self,
            Self::BlackHole
                | Self::Stall
                | Self::SlowNetwork
                | Self::Reset
                | Self::LostAnswers
                | Self::DoubledRequests
                | Self::StoppedProcess
                | Self::KilledProcess
        )
    }

    fn may(self) -> May {
        match self {
            Self::StoppedProcess => May::Stop,
            Self::DoubledRequests => May::Repeat,
            Self::Flushed => May::Forget,
            // A lost server is down for a while, and loses its data in one moment of it.
            _ => May::Delay,
        }
    }
}

/// What faults are injected into.
pub(crate) struct Nemesis<'a> {
    pub(crate) server: &'a RedisServer,
    /// A connection to it that no fault is meant for.
    pub(crate) side: &'a RawClient,
    pub(crate) recorder: &'a Recorder,
}

impl Nemesis<'_> {
    /// Injects the fault and returns when it is over.
    pub(crate) async fn inject(&self, plan: Plan, party: &mut Party) {
        let Plan { fault, lasts, .. } = plan;
        match fault.may() {
            may if fault.befalls_a_party() => {
                self.recorder.record_fault_of(fault.name(), may, party.process.id());
            }
            may => self.recorder.record_fault(fault.name(), may),
        }
        match fault {
            Fault::BlackHole => self.network(&party.proxy, lasts, Proxy::black_hole).await,
            Fault::Stall => self.network(&party.proxy, lasts, Proxy::stall).await,
            Fault::SlowNetwork => {
                let slow = |proxy: &Proxy| proxy.delay(lasts / 20);
                self.network(&party.proxy, lasts, slow).await;
            }
            Fault::Reset => party.proxy.reset_all(),
            Fault::LostAnswers => {
                (0..5).for_each(|_| party.proxy.drop_next_reply());
                sleep(lasts).await;
                // Each ends a connection. A client that has lost some in succession pauses before the next, and the fault
                // lasts until it has met them all.
                party.proxy.plan_nothing();
            }
            Fault::DoubledRequests => {
                (0..5).for_each(|_| party.proxy.duplicate_next_request());
                sleep(lasts).await;
                party.proxy.plan_nothing();
            }
            Fault::StoppedProcess => {
                party.process.sigstop();
                sleep(lasts).await;
                party.process.sigcont();
            }
            Fault::KilledProcess => {
                party.process.sigkill();
                self.recorder.record_kill(party.process.id());
                party.restart().await;
            }
            _ => self.befall_server(fault, lasts).await,
        }
        self.recorder.record_end_of_fault(fault.name());
    }

    async fn network(&self, proxy: &Proxy, lasts: Duration, fault: impl FnOnce(&Proxy)) {
        fault(proxy);
        sleep(lasts).await;
        proxy.pass();
    }

    async fn befall_server(&self, fault: Fault, lasts: Duration) {
        match fault {
            Fault::StoppedServer => {
                self.server.pause();
                sleep(lasts).await;
                self.server.resume();
            }
            Fault::LostServer => {
                self.recorder.record_fault(LOSS, May::Forget);
                self.server.kill();
                self.recorder.record_end_of_fault(LOSS);
                self.server.restart().await;
            }
            Fault::Flushed => self.tell(&["FLUSHALL"]).await,
            Fault::ClosedConnections => {
                self.tell(&["CLIENT", "KILL", "TYPE", "normal"]).await;
                self.tell(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            }
            Fault::ClosedSubscriptions => self.tell(&["CLIENT", "KILL", "TYPE", "pubsub"]).await,
            Fault::ForgottenScripts => self.tell(&["SCRIPT", "FLUSH"]).await,
            Fault::PausedWrites => {
                let millis = lasts.as_millis().to_string();
                self.tell(&["CLIENT", "PAUSE", &millis, "WRITE"]).await;
                sleep(lasts).await;
            }
            Fault::OutOfMemory => {
                self.tell(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
                sleep(lasts).await;
                self.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
            }
            Fault::BusyServer => {
                let seconds = format!("{:.3}", lasts.as_secs_f32());
                self.tell(&["DEBUG", "SLEEP", &seconds]).await;
            }
            _ => unreachable!("{fault:?} befalls a party"),
        }
    }

    /// Sends a command to the server, over a new connection if an earlier fault has ended the last one.
    async fn tell(&self, words: &[&str]) {
        let told = async || self.side.try_cmd(words).await.is_ok();
        eventually(SOON, &words.join(" "), told).await;
    }
}
