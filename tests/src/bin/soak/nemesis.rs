//! Chooses faults and injects them.

use std::time::Duration;

use lock_tests::history::{May, Recorder};
use lock_tests::{Proxy, RawClient, RedisServer, eventually};
use tokio::time::sleep;

use crate::round::{LEASE, Party, SOON};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
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

/// Each fault, what it is called in the history, and what it may do.
const FAULTS: [(Fault, &str, May); 17] = [
    (Fault::BlackHole, "network swallows everything", May::Delay),
    (Fault::Stall, "network delivers late", May::Delay),
    (Fault::SlowNetwork, "slow network", May::Delay),
    (Fault::Reset, "connections reset", May::Delay),
    (Fault::LostAnswers, "answers lost", May::Delay),
    (Fault::DoubledRequests, "requests arrive twice", May::Repeat),
    (Fault::StoppedProcess, "process stands still", May::Stop),
    (Fault::KilledProcess, "process killed", May::Delay),
    (Fault::StoppedServer, "server stands still", May::Delay),
    // It is down for a while, and loses its data in one moment of it.
    (Fault::LostServer, "server killed, data lost", May::Delay),
    (Fault::Flushed, "all keys deleted", May::Forget),
    (Fault::ClosedConnections, "server closes connections", May::Delay),
    (Fault::ClosedSubscriptions, "server closes subscriptions", May::Delay),
    (Fault::ForgottenScripts, "server forgets scripts", May::Delay),
    (Fault::PausedWrites, "server keeps writes back", May::Delay),
    (Fault::OutOfMemory, "server out of memory", May::Delay),
    (Fault::BusyServer, "server busy", May::Delay),
];

/// How many of them, the first ones, only one party notices.
const OF_A_PARTY: usize = 8;

/// What the history calls the moment in which a server that is killed loses its data.
const LOSS: &str = "data lost";

/// A fault, whom it befalls, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    fault: Fault,
    /// What it is called in the history.
    pub(crate) name: &'static str,
    may: May,
    /// Whether only one party notices it.
    is_of_a_party: bool,
    /// The party, if the fault befalls one.
    pub(crate) party: usize,
    pub(crate) lasts: Duration,
    /// The time without a fault after it.
    pub(crate) pause: Duration,
}

impl Plan {
    /// The next one for these choices.
    pub(crate) fn next(choices: &mut fastrand::Rng, parties: usize) -> Self {
        let number = choices.usize(..FAULTS.len());
        let ((fault, name, may), is_of_a_party) = (FAULTS[number], number < OF_A_PARTY);
        // Shorter than a lease, or longer.
        let lasts = LEASE.mul_f32(0.1 + 1.7 * choices.f32());
        // Every other time for so long that no fault is to blame for what happens.
        let calm = choices.bool();
        let pause = LEASE.mul_f32(0.5 + choices.f32() + if calm { 4.0 } else { 0.0 });
        Self { fault, name, may, is_of_a_party, party: choices.usize(..parties), lasts, pause }
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
        let Plan { fault, name, may, is_of_a_party, lasts, .. } = plan;
        if is_of_a_party {
            self.recorder.record_fault_of(name, may, party.process.id());
        } else {
            self.recorder.record_fault(name, may);
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
        self.recorder.record_end_of_fault(name);
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
