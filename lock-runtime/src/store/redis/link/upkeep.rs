//! The task of a link: it reconnects, checks the connection, and ends subscriptions.
//!
//! # Servers that may be replaced
//!
//! Sentinels replace a master that has been silent for `down-after-milliseconds`. A master that was only stopped
//! grants locks afterwards until it learns of that. So the link gives up a silent connection before the sentinels may
//! replace the server: it sends PINGs often enough, and waits for the answer briefly enough. What the server grants
//! later arrives on a connection that is [retired](super::connection), so it does not count.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use redis::Value;
use tokio::runtime::{Handle, Id};
use tokio::spawn;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{CallError, Connection, Link, PING_TIMEOUT, ReconnectPause};
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::scripts::Publish;

/// How often the task looks after channels and an idle connection.
const TICK: Duration = Duration::from_secs(1);

/// A connection with subscriptions is checked after this time without an answer.
const IDLE: Duration = Duration::from_secs(5);

/// The same without subscriptions: only the next call would be late.
const IDLE_ALONE: Duration = Duration::from_secs(15);

/// The same at a node of a cluster, which may be replaced, by default after 15 s.
const IDLE_IN_CLUSTER: Duration = Duration::from_secs(2);

/// The minimum time for the answer to a PING. The longest WAIT delays it by nearly as much, and so does a busy machine.
const LEAST_PING_TIMEOUT: Duration = Duration::from_millis(400);

/// How a connection is checked.
// By PING alone. How long a command may take depends on its lease and its caller, so its timeout says little of the connection.
#[derive(Debug, Clone, Copy)]
struct Pulse {
    /// How often the task looks.
    every: Duration,
    /// It sends a PING after this time without an answer.
    idle: Duration,
    /// How long the answer may take.
    timeout: Duration,
}

impl Pulse {
    /// For a server that may be replaced after a silence of `down_after`.
    fn within(down_after: Duration) -> Self {
        let every = (down_after / 8).min(TICK);
        let timeout = (down_after / 2).clamp(LEAST_PING_TIMEOUT, PING_TIMEOUT);
        Self { every, idle: every, timeout }
    }
}

impl Link {
    fn pulse(&self, connection: &Connection) -> Pulse {
        if let Some(master) = &connection.master {
            return Pulse::within(master.down_after());
        }
        let idle = match () {
            () if self.channels.any_waited_for() => IDLE,
            () if self.publish() == Publish::InSlot => IDLE_IN_CLUSTER,
            () => IDLE_ALONE,
        };
        Pulse { every: TICK, idle, timeout: PING_TIMEOUT }
    }

    /// Subscribes every channel on a new connection, however long that takes if each answer comes in time: a limit for
    /// all would replace the connection forever where there are many channels or the network is slow.
    pub(super) async fn replay_subscriptions(&self, connection: &Connection) {
        let limit = self.pulse(connection).timeout;
        let subscribe = |name: String| async move {
            let subscribed = self.subscribe_on(connection, &name, Instant::now() + limit).await;
            // In a cluster, an error says that another node has the slot by now; the cluster's task subscribes there.
            // Elsewhere the link has given up a broken connection, and the server would repeat a refusal.
            if let (Publish::Everywhere, Err(CallError::TimedOut { .. })) =
                (self.publish(), subscribed)
            {
                self.give_up(connection);
            }
        };
        let names = self.channels.to_replay(self.publish() == Publish::InSlot);
        stream::iter(names).for_each_concurrent(256, subscribe).await;
    }

    /// Subscribes the channels that only functions listen to, and which this connection has not been asked for. The answer
    /// may take any time: that it is late says nothing of the requests for locks, which must not lose their connection by it.
    /// A cluster's task follows the slots of its own.
    fn subscribe_new(self: &Arc<Self>, connection: &Arc<Connection>) {
        if self.publish() == Publish::InSlot {
            return;
        }
        for name in self.channels.take_unasked(connection.number) {
            let (link, connection) = (Arc::downgrade(self), Arc::clone(connection));
            spawn(async move {
                let answer = connection.subscribe(&name).await;
                if let Some(link) = link.upgrade() {
                    link.subscribed(&connection, &name, answer);
                }
            });
        }
    }

    /// Sends a PING over an idle or suspicious connection.
    async fn check(&self, connection: &Connection, elapsed: Duration, idle_for: &mut Duration) {
        let pulse = self.pulse(connection);
        let suspicious = self.suspicious.load(Ordering::Relaxed);
        if self.answered.swap(false, Ordering::Relaxed) && !suspicious {
            *idle_for = Duration::ZERO;
            return;
        }
        *idle_for += elapsed;
        if !suspicious && *idle_for < pulse.idle {
            return;
        }
        *idle_for = Duration::ZERO;
        let answer = timeout(pulse.timeout, connection.ask(&redis::cmd("PING"))).await;
        // Over a slow network, answers to earlier requests come first and show that the server lives. But they may be
        // older than the silence for which the sentinels replace a server.
        let heard = connection.master.is_none() && self.answered.load(Ordering::Relaxed);
        let silent = answer.is_err() && !heard;
        match self.judge(connection, answer) {
            Err(_) if silent => self.give_up(connection),
            Ok(answer) if answer != Value::SimpleString("PONG".to_owned()) => {
                self.mixed_up(connection);
            }
            _ => {}
        }
    }

    /// Ends all unused subscriptions with one command, so that a connection that does not answer delays the task only
    /// once.
    async fn unsubscribe_stale(&self, connection: &Connection) {
        let stale = self.channels.take_stale();
        if stale.is_empty() {
            return;
        }
        let limit = self.pulse(connection).timeout;
        let ended = timeout(limit, self.unsubscribe(connection, &stale)).await;
        let silent = ended.is_err();
        let answered = matches!(self.judge(connection, ended), Ok(()) | Err(CallError::Server(..)));
        if silent {
            self.give_up(connection);
        }
        for name in stale {
            if !self.channels.settle(&name) && answered {
                // A new SUBSCRIBE may have crossed with the UNSUBSCRIBE. Without an answer, a new connection repeats it.
                if self.subscribe(&name, Instant::now() + limit).await.is_err() {
                    return self.give_up(connection);
                }
                self.channels.notify(&name);
            }
        }
    }
}

/// How often a task shows that it is polled.
const BEAT: Duration = Duration::from_secs(1);

/// A task without a sign of life for this time is not polled, if that is so twice with at least a [`BEAT`] in between: after
/// a process stood still, the first look may come before the task is polled.
const STALLED: Duration = Duration::from_secs(2);

/// The task of a link, as its callers see it.
pub(super) struct Upkeep {
    task: JoinHandle<()>,
    pub(super) runtime: Id,
    /// When it gave its last sign of life.
    beat: Arc<Mutex<Instant>>,
    /// The sign of life that was old, and when a caller saw that first.
    doubted: Option<(Instant, Instant)>,
}

impl Upkeep {
    /// Starts a task in the caller's runtime.
    pub(super) fn start(link: Weak<Link>, endpoint: Endpoint) -> Self {
        let beat = Arc::new(Mutex::new(Instant::now()));
        let task = spawn(run(link, endpoint, Arc::clone(&beat)));
        Self { task, runtime: Handle::current().id(), beat, doubted: None }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends a task whose place another has taken, once it is polled.
    pub(super) fn abort(&self) {
        self.task.abort();
    }

    /// True if the task is not polled, although the caller's runtime is.
    pub(super) fn is_stalled(&mut self, caller: Id) -> bool {
        let (now, beat) = (Instant::now(), *self.beat.lock());
        if caller == self.runtime || now < beat + STALLED {
            self.doubted = None;
            return false;
        }
        match self.doubted {
            Some((doubted, since)) if doubted == beat => now >= since + BEAT,
            _ => {
                self.doubted = Some((beat, now));
                false
            }
        }
    }
}

/// Runs the task: keeps the connection, and follows the endpoint meanwhile.
async fn run(link: Weak<Link>, endpoint: Endpoint, beat: Arc<Mutex<Instant>>) {
    let changed = || link.upgrade().iter().for_each(|link| link.leave_replaced());
    let show_life = async {
        loop {
            *beat.lock() = Instant::now();
            sleep(BEAT).await;
        }
    };
    tokio::select! {
        () = keep_connected(link.clone()) => {}
        () = endpoint.follow(changed) => {}
        () = show_life => {}
    }
    endpoint.disconnect();
}

/// Reconnects and checks the connection until the link is closed or dropped.
async fn keep_connected(link: Weak<Link>) {
    let (mut idle_for, mut pause) = (Duration::ZERO, ReconnectPause::new());
    pause.connected();
    loop {
        let Some(link) = link.upgrade() else { return };
        link.reconnect(&mut pause).await;
        if link.is_closed() {
            return;
        }
        let current = link.current.load_full();
        current.iter().for_each(|connection| link.subscribe_new(connection));
        let every = current.map_or(TICK, |connection| link.pulse(&connection).every);
        let _ = timeout(every, link.check_now.notified()).await;
        if let Some(connection) = link.current.load_full() {
            link.check(&connection, every, &mut idle_for).await;
            link.unsubscribe_stale(&connection).await;
        }
    }
}
