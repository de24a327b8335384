//! Locks that replicas have to acknowledge, on a connection of their own.
//!
//! WAIT covers the commands sent before it on its own connection, and delays those sent after it there. So
//! every request about these locks uses one connection, in order and to one server, and all other requests use
//! another. A refusal is as fast as for any other lock; a grant counts once enough replicas have acknowledged
//! it.
//!
//! # Short waits
//!
//! A WAIT for the whole time allowed would delay releases, renewals and PINGs behind it, once for each lock that is
//! being acquired. So each WAIT is short and is repeated, longer each time, until enough replicas have acknowledged.
//! There is one WAIT at a time on the connection; the first follows the script at once, unless another is under way.
//! It must use the connection of the script: on another one it would not answer for the script's writes.
//!
//! # Renewals
//!
//! Renewals do not wait for replicas. A replica that had the lock has at least its last renewal but one, so after a
//! failover the key lasts until the next renewal. If renewals waited, every lock would be lost one lease after a
//! failover to the last replica. The next renewal notices a replica that lagged behind for longer: it answers "not
//! the owner".
// S-31, S-21.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{Either, select};
use redis::{Cmd, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::HoldRequest;
use super::answers::{acquired, number};
use super::calls::millis;
use crate::error::{StoreError, StoreErrorKind};
use crate::options::Replicas;
use crate::store::redis::link::{Connection, Link};
use crate::store::redis::scripts::is_noscript;
use crate::store::redis::server::errors::CallError;
use crate::store::unsent::dropped_unsent;
use crate::store::{AcquireReply, AcquireRequest, OwnerId};

/// How long the first WAIT may delay the connection, and the longest one.
const SLICE: Duration = Duration::from_millis(20);
const LONGEST_SLICE: Duration = Duration::from_millis(320);

/// A command that the first poll sends.
type Sending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// Sends the requests for locks that ask for replicas.
pub(crate) struct Replicated {
    main: Arc<Link>,
    /// Made for the first lock that asks for replicas.
    link: OnceLock<Arc<Link>>,
    /// Held while a WAIT is under way.
    turn: Mutex<()>,
}

impl Replicated {
    /// A second connection to the same server as `main`.
    pub(crate) fn new(main: Arc<Link>) -> Self {
        Self { main, link: OnceLock::new(), turn: Mutex::default() }
    }

    /// The link to that connection; needs a runtime.
    pub(crate) fn link(&self) -> &Arc<Link> {
        let link = self.link.get_or_init(|| self.main.another());
        link.ensure_task();
        link
    }

    pub(crate) fn close(&self) {
        self.link.get().into_iter().for_each(|link| link.close());
    }

    /// Acquires a lock and waits for the replicas.
    pub(crate) async fn acquire(
        &self,
        request: AcquireRequest,
        replicas: Replicas,
    ) -> Result<AcquireReply, StoreError> {
        let (start, tokens, limit) = (Instant::now(), request.tokens, request.timeout);
        let deadline = start + limit;
        // Leaves time for the answer: that too few replicas have acknowledged is one.
        let until = (deadline - SLICE.min(limit / 4)).min(start + replicas.timeout);
        let link = self.link();
        let mut unsent = Unsent(Some(request.owner.clone()));
        let call = HoldRequest::Acquire(request).call(link.publish());
        let mut is_loaded = false;
        let (connection, turn, answer, waiting) = loop {
            let connected = link.connected(deadline).await;
            // It is sent from here on, or has failed.
            unsent.0 = None;
            let connection = connected?;
            let turn = self.turn.try_lock().ok();
            let wait = turn.is_some().then(|| wait(replicas.acks, until, SLICE));
            let acquired = timeout_at(deadline, acquire(&connection, call.cmd(), wait)).await;
            match link.judge(&connection, acquired) {
                Ok((reply, waiting)) => {
                    let answer = link.answer_of(&connection, call.number(), reply)?;
                    break (connection, turn, answer, waiting);
                }
                // Nothing ran.
                Err(CallError::Server(error, _)) if is_noscript(&error) && !is_loaded => {
                    link.load(&call, deadline).await?;
                    is_loaded = true;
                }
                Err(error) => return Err(error.within(limit).into()),
            }
        };
        let reply = acquired(&answer, tokens)?;
        if !matches!(reply, AcquireReply::Granted(_)) {
            return Ok(reply);
        }
        let mut acked = match waiting {
            Some(waiting) => self.acknowledged(&connection, waiting, SLICE, deadline).await?,
            None => 0,
        };
        drop(turn);
        let mut slice = SLICE;
        while acked < replicas.acks && Instant::now() < until {
            let turn = timeout_at(until, self.turn.lock()).await;
            // Without the turn and out of time, it only asks for the number, which delays nothing.
            let wanted = turn.as_ref().map_or(0, |_| replicas.acks);
            // Each WAIT sends something to the replicas, which the next WAIT wants acknowledged too. So it has to last
            // for a round trip to them, however long that is.
            slice = (slice * 2).min(LONGEST_SLICE);
            let waiting = send(&connection, wait(wanted, until, slice));
            // A replica that has acknowledged once has the lock, whatever later answers say.
            acked = self.acknowledged(&connection, waiting, slice, deadline).await?.max(acked);
        }
        let enough = acked >= replicas.acks;
        Ok(if enough { reply } else { AcquireReply::NotReplicated { acked } })
    }

    /// The number of replicas that a WAIT answers; zero if there is no answer before the deadline. An idle server
    /// looks at the clock ten times a second, and whenever it gets a command, so this sends PINGs.
    async fn acknowledged(
        &self,
        connection: &Connection,
        waiting: Sending,
        slice: Duration,
        deadline: Instant,
    ) -> Result<u32, StoreError> {
        let pings = async {
            // The server counts from when it gets the command, in whole milliseconds.
            tokio::time::sleep(slice).await;
            loop {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let _ = self.main.call(&redis::cmd("PING"), deadline).await;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = waiting => answer,
            () = pings => return Ok(0),
            () = sleep_until(deadline) => return Ok(0),
        };
        count(self.link().judge(connection, Ok(answer)))
    }
}

/// The owner of an acquire that waits for the connection.
struct Unsent(Option<OwnerId>);

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.iter().for_each(dropped_unsent);
    }
}

/// Sends the script and, if wanted, a WAIT right behind it. Returns the answer of the script and the WAIT under way.
async fn acquire(
    connection: &Connection,
    call: &Cmd,
    wait: Option<Cmd>,
) -> RedisResult<(Value, Option<Sending>)> {
    let script = send(connection, call.clone());
    let Some(wait) = wait else { return Ok((script.await?, None)) };
    match select(script, send(connection, wait)).await {
        Either::Left((answer, waiting)) => Ok((answer?, Some(waiting))),
        // Never before the script's answer, unless the connection is broken.
        Either::Right((waited, script)) => {
            Ok((script.await?, Some(Box::pin(std::future::ready(waited)))))
        }
    }
}

fn send(connection: &Connection, cmd: Cmd) -> Sending {
    Box::pin(unconstrained(connection.send(cmd)))
}

fn wait(replicas: u32, until: Instant, slice: Duration) -> Cmd {
    let left = until.saturating_duration_since(Instant::now()).min(slice);
    let mut wait = redis::cmd("WAIT");
    // Zero would wait forever.
    wait.arg(replicas).arg(millis(left).max(1));
    wait
}

/// The number that a WAIT answers. The lock is acquired, so no error may say that nothing ran.
fn count(answer: Result<Value, CallError>) -> Result<u32, StoreError> {
    let error = match answer {
        Ok(answer) => return Ok(u32::try_from(number(&answer.into())?).unwrap_or(0)),
        Err(error) => StoreError::from(error),
    };
    Err(match error.kind() {
        StoreErrorKind::Denied | StoreErrorKind::OutcomeUnknown => error,
        _ => StoreError::new(
            StoreErrorKind::OutcomeUnknown,
            "the server did not say how many replicas know of the lock",
        )
        .with_source(error),
    })
}
