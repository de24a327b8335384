//! What the task of a link does: it reconnects, asks for signs of life, and ends subscriptions.
//!
//! # Servers that may be replaced
//!
//! Sentinels replace a master that has been silent for a time of their own, `down-after-milliseconds`. If
//! it was only stopped, it goes on granting afterwards until it is told; and if the sentinels are away
//! by then, no client is. So a connection to it is given up before they may replace it: it is asked for a
//! sign of life so often, and the answer may take so long, that a silence is found out in less than that time.
//! What it grants later is on a connection that does not count (see [`live`](super::super::live)).

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use redis::Value;
use tokio::time::{Instant, timeout};

use super::backoff::Backoff;
use super::{CONNECT_TIMEOUT, Connection, Link, PING_TIMEOUT};
use crate::store::redis::endpoint::Endpoint;

/// How often the task looks after channels and an idle connection.
const TICK: Duration = Duration::from_secs(1);

/// After how long without an answer a connection that carries subscriptions is asked for a sign of
/// life.
const IDLE: Duration = Duration::from_secs(5);

/// The same where nothing is subscribed: only the next call would find out that the connection is dead.
const IDLE_ALONE: Duration = Duration::from_secs(15);

/// The same at a node of a cluster, which may be replaced: nodes wait for 15 s unless told otherwise.
const IDLE_IN_CLUSTER: Duration = Duration::from_secs(2);

/// The least time that a sign of life has. The longest WAIT holds one up for nearly as long, and so does a
/// busy machine.
const LEAST_PING_TIMEOUT: Duration = Duration::from_millis(400);

/// How a connection is asked for signs of life.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulse {
    /// How often the task looks.
    every: Duration,
    /// After how long without an answer it asks.
    idle: Duration,
    /// How long the answer may take.
    pub(crate) timeout: Duration,
}

impl Pulse {
    /// For a server that is replaced when it has been silent for `down_after`.
    fn within(down_after: Duration) -> Self {
        let every = (down_after / 8).min(TICK);
        let timeout = (down_after / 2).clamp(LEAST_PING_TIMEOUT, PING_TIMEOUT);
        Self { every, idle: every, timeout }
    }
}

impl Link {
    fn pulse(&self, live: &Connection) -> Pulse {
        if let Some(server) = live.server() {
            return Pulse::within(server.down_after());
        }
        let idle = match () {
            () if self.channels.any() => IDLE,
            () if self.notices.are_in_slot() => IDLE_IN_CLUSTER,
            () => IDLE_ALONE,
        };
        Pulse { every: TICK, idle, timeout: PING_TIMEOUT }
    }

    /// Subscribes every channel on a new connection.
    pub(crate) async fn replay_subscriptions(&self, live: &Connection) {
        let limit = self.pulse(live).timeout;
        let subscribe = |name: String| async move {
            if self.notices.are_in_slot() {
                // One that another node has by now is asked for there.
                let _ = self.subscribe_in_slot(live, &name, Instant::now() + limit).await;
                return;
            }
            let answer = timeout(limit, live.subscribe(&name)).await;
            let silent = answer.is_err();
            match self.judge(live, answer) {
                Ok(()) => self.channels.confirm(&name, live.number),
                Err(_) if silent => self.give_up(live),
                // A broken connection has been given up; what the server refuses, it refuses again.
                Err(_) => {}
            }
        };
        let all = stream::iter(self.channels.names()).for_each_concurrent(256, subscribe);
        if timeout(CONNECT_TIMEOUT, all).await.is_err() {
            self.give_up(live);
        }
    }

    /// Asks an idle or suspicious connection for a sign of life.
    async fn check(&self, live: &Connection, looked_for: Duration, idle_for: &mut Duration) {
        let pulse = self.pulse(live);
        let suspicious = self.suspicious.load(Ordering::Relaxed);
        if self.answered.swap(false, Ordering::Relaxed) && !suspicious {
            *idle_for = Duration::ZERO;
            return;
        }
        *idle_for += looked_for;
        if !suspicious && *idle_for < pulse.idle {
            return;
        }
        *idle_for = Duration::ZERO;
        let answer = timeout(pulse.timeout, live.ask(&redis::cmd("PING"))).await;
        // Over a slow network the answers to what was sent before the PING come first, and are signs of
        // life as well; but they may be older than the silence of a server that is then replaced.
        let heard = live.server().is_none() && self.answered.load(Ordering::Relaxed);
        let silent = answer.is_err() && !heard;
        match self.judge(live, answer) {
            Err(_) if silent => self.give_up(live),
            Ok(answer) if answer != Value::SimpleString("PONG".to_owned()) => self.mixed_up(live),
            _ => {}
        }
    }

    /// Ends subscriptions that nobody uses any more, with one command for all of them: a connection
    /// that does not answer must not keep the task from replacing it.
    async fn unsubscribe_stale(&self, live: &Connection) {
        let stale = self.channels.take_stale();
        if stale.is_empty() {
            return;
        }
        let limit = self.pulse(live).timeout;
        let left = timeout(limit, self.unsubscribe(live, &stale)).await;
        let silent = left.is_err();
        let answered = self.judge(live, left).is_ok();
        if silent {
            self.give_up(live);
        }
        for name in stale {
            if !self.channels.settle(&name) && answered {
                // The two commands may have crossed. Without an answer a new connection does this.
                if self.subscribe(&name, Instant::now() + limit).await.is_err() {
                    return self.give_up(live);
                }
                self.channels.notice(&name);
            }
        }
    }
}

/// The task: supervises, and follows the source meanwhile.
pub(crate) async fn attend(link: Weak<Link>, source: Endpoint) {
    let leave = || link.upgrade().iter().for_each(|link| link.leave_replaced());
    tokio::select! {
        () = supervise(link.clone()) => {}
        () = source.follow(leave) => {}
    }
    source.rest();
}

/// Reconnects, looks after the connection, and ends with the link.
async fn supervise(link: Weak<Link>) {
    let (mut idle_for, mut backoff) = (Duration::ZERO, Backoff::default());
    backoff.connected();
    loop {
        let Some(link) = link.upgrade() else { return };
        link.reconnect(&mut backoff).await;
        if link.closed.load(Ordering::Acquire) {
            return;
        }
        let every = link.live.load().as_ref().map_or(TICK, |live| link.pulse(live).every);
        let _ = timeout(every, link.look.notified()).await;
        if let Some(live) = link.live.load_full() {
            link.check(&live, every, &mut idle_for).await;
            link.unsubscribe_stale(&live).await;
        }
    }
}
