//! Locks that replicas have to know of, on a connection of their own.
//!
//! WAIT answers for what was written before it on its own connection, and holds up whatever comes
//! behind it there. So everything about these locks goes over one connection, in its order and to
//! one server, and all else over another. A lock is refused as fast as any other; a grant counts once enough
//! replicas have acknowledged it.
//!
//! # Short waits
//!
//! A WAIT of the whole time allowed would hold up releases, renewals and signs of life behind it, as
//! many times as there are locks being taken. So each is short, is repeated, longer, while it falls short, and
//! there is one at a time on the connection; the first goes out right behind the script, if the turn
//! is free. Always on the connection of the script: another would answer for nothing of ours.
//!
//! # Renewals
//!
//! They do not wait for replicas. A replica that had the lock has its last renewal but one, so after a
//! failover the key outlives the next renewal; and were acknowledgements asked for, every lock would
//! be lost one lease after a failover to the last replica. One that has lagged behind for longer than
//! that is found out by the next renewal, as "not the owner".
// S-31, S-21.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{Either, select};
use redis::{Cmd, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout_at};

use crate::error::{StoreError, StoreErrorKind};
use crate::options::Replicas;
use crate::store::redis::link::{CallError, Connection, Link};
use crate::store::redis::requests::answer::{acquired, surprise};
use crate::store::redis::requests::{ScriptCall, millis};
use crate::store::redis::scripts::is_noscript;
use crate::store::redis::scripts::numbered::NumberedCall;
use crate::store::{AcquireReply, AcquireRequest};

/// How long the first WAIT holds up the connection, and the longest that any does.
const SLICE: Duration = Duration::from_millis(20);
const LONGEST_SLICE: Duration = Duration::from_millis(320);

/// A command that is handed to the connection when first polled, however much the task has done.
type Sending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// See the module.
pub(crate) struct Replicated {
    main: Arc<Link>,
    /// Made for the first lock that asks for replicas.
    link: OnceLock<Arc<Link>>,
    /// Held by whoever has a WAIT under way.
    turn: Mutex<()>,
}

impl Replicated {
    /// A connection beside `main`, to the same server.
    pub(crate) fn new(main: Arc<Link>) -> Self {
        Self { main, link: OnceLock::new(), turn: Mutex::default() }
    }

    /// The connection. Within a runtime.
    pub(crate) fn link(&self) -> &Arc<Link> {
        let link = self.link.get_or_init(|| self.main.another());
        link.ensure_task();
        link
    }

    pub(crate) fn close(&self) {
        if let Some(link) = self.link.get() {
            link.close();
        }
    }

    /// Runs a request that need not be acknowledged.
    pub(crate) async fn run(&self, ask: &ScriptCall) -> Result<Value, StoreError> {
        let (script, call) = ask.alone(self.main.notices());
        Ok(script.run(self.link(), call, Instant::now() + ask.timeout()).await?)
    }

    /// Takes a lock and waits for the replicas.
    pub(crate) async fn acquire(
        &self,
        request: AcquireRequest,
        replicas: Replicas,
    ) -> Result<AcquireReply, StoreError> {
        let (start, tokens) = (Instant::now(), request.tokens);
        let deadline = start + request.timeout;
        // An answer takes its time as well, and that too few have acknowledged is one.
        let until = (deadline - SLICE.min(request.timeout / 4)).min(start + replicas.timeout);
        let link = self.link();
        let ask = ScriptCall::Acquire(request);
        let (script, call) = ask.alone(self.main.notices());
        let call = NumberedCall::new(call);
        let (live, turn, answer, behind) = loop {
            let live = link.connected(deadline).await?;
            let turn = self.turn.try_lock().ok();
            let wait = turn.is_some().then(|| wait(replicas.at_least, until, SLICE));
            let taken = timeout_at(deadline, take(&live, call.cmd(), wait)).await;
            match link.judge(&live, taken) {
                Ok((reply, behind)) => {
                    let answer = link.answer_of(&live, &call, reply)?;
                    break (live, turn, answer, behind);
                }
                // Nothing ran.
                Err(CallError::Server(error)) if is_noscript(&error) => {
                    script.load(link, deadline).await?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let reply = acquired(&answer, tokens)?;
        if !matches!(reply, AcquireReply::Granted(_)) {
            return Ok(reply);
        }
        let mut acked = match behind {
            Some(waiting) => self.acknowledged(&live, waiting, SLICE, deadline).await?,
            None => 0,
        };
        drop(turn);
        let mut slice = SLICE;
        while acked < replicas.at_least && Instant::now() < until {
            let turn = timeout_at(until, self.turn.lock()).await;
            // Out of turn and of time it only asks, which holds nobody up.
            let wanted = turn.as_ref().map_or(0, |_| replicas.at_least);
            // Each WAIT writes to the replicas and the next wants that acknowledged too, so it has to
            // last for a round trip to them, however long that is.
            slice = (slice * 2).min(LONGEST_SLICE);
            let wait = sending(&live, wait(wanted, until, slice));
            // Who has acknowledged once, has for good.
            acked = self.acknowledged(&live, wait, slice, deadline).await?.max(acked);
        }
        let enough = acked >= replicas.at_least;
        Ok(if enough { reply } else { AcquireReply::NotReplicated { acked } })
    }

    /// How many replicas have acknowledged, from the answer to a WAIT; none if there is no answer
    /// before the deadline.
    async fn acknowledged(
        &self,
        live: &Connection,
        waiting: Sending,
        slice: Duration,
        deadline: Instant,
    ) -> Result<u32, StoreError> {
        let Ok(answer) = timeout_at(deadline, self.nudged(waiting, slice, deadline)).await else {
            return Ok(0);
        };
        count(self.link().judge(live, Ok(answer)))
    }

    /// Waits for the answer to a WAIT. An idle server looks at the clock ten times a second, and
    /// whenever somebody says something; so somebody does.
    async fn nudged(
        &self,
        waiting: Sending,
        slice: Duration,
        deadline: Instant,
    ) -> RedisResult<Value> {
        match select(waiting, pin!(self.nudge(slice, deadline))).await {
            Either::Left((answer, _)) => answer,
            Either::Right((never, _)) => match never {},
        }
    }

    async fn nudge(&self, slice: Duration, deadline: Instant) -> Infallible {
        let ping = redis::cmd("PING");
        // The server counts from when it gets the command, in whole milliseconds.
        let again = Duration::from_millis(2);
        tokio::time::sleep(slice).await;
        loop {
            tokio::time::sleep(again).await;
            let _ = self.main.call(&ping, deadline).await;
        }
    }
}

/// Sends the script and, if wanted, a WAIT right behind it: the answer of the first, and the second
/// under way.
async fn take(
    live: &Connection,
    call: &Cmd,
    wait: Option<Cmd>,
) -> RedisResult<(Value, Option<Sending>)> {
    let script = sending(live, call.clone());
    let Some(wait) = wait else { return Ok((script.await?, None)) };
    match select(script, sending(live, wait)).await {
        Either::Left((answer, waiting)) => Ok((answer?, Some(waiting))),
        // Not before the script, unless the connection is broken.
        Either::Right((waited, script)) => {
            Ok((script.await?, Some(Box::pin(std::future::ready(waited)))))
        }
    }
}

fn sending(live: &Connection, cmd: Cmd) -> Sending {
    Box::pin(unconstrained(live.send(cmd)))
}

fn wait(replicas: u32, until: Instant, slice: Duration) -> Cmd {
    let left = until.saturating_duration_since(Instant::now()).min(slice);
    let mut wait = redis::cmd("WAIT");
    // Zero would be for ever.
    wait.arg(replicas).arg(millis(left).max(1));
    wait
}

/// How many replicas have acknowledged. The lock is taken, so no error says that nothing ran.
fn count(answer: Result<Value, CallError>) -> Result<u32, StoreError> {
    match answer {
        Ok(Value::Int(acked)) => Ok(u32::try_from(acked).unwrap_or(0)),
        Ok(other) => Err(surprise(&other)),
        Err(error) => {
            let error = StoreError::from(error);
            Err(match error.kind() {
                StoreErrorKind::Denied | StoreErrorKind::OutcomeUnknown => error,
                _ => StoreError::new(
                    StoreErrorKind::OutcomeUnknown,
                    "the server did not say how many replicas know of the lock",
                )
                .with_source(error),
            })
        }
    }
}
