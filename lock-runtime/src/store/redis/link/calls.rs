//! Calls over a link.

use futures_util::future::join;
use redis::{Cmd, Value};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout_at};

use super::{CallError, Connection, Link};
use crate::store::redis::scripts::{Answer, ScriptCall, is_noscript};

/// How often a script is sent that the server does not know. Behind a proxy that shares commands out to several servers, it
/// may never know it.
const ROUNDS: u32 = 3;

impl Link {
    /// Sends one command and waits for its answer.
    pub(crate) async fn call(&self, cmd: &Cmd, deadline: Instant) -> Result<Value, CallError> {
        let connection = self.connected(deadline).await?;
        self.call_on(&connection, cmd, deadline).await
    }

    async fn call_on(
        &self,
        connection: &Connection,
        cmd: &Cmd,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        // Unconstrained: the first poll sends the command, however much this task has done (S-21).
        let answer = timeout_at(deadline, unconstrained(connection.ask(cmd))).await;
        self.judge(connection, answer)
    }

    /// Runs a script and waits for its answer. After NOSCRIPT, which means that nothing ran, loads the script
    /// and runs it again, a few times at most.
    pub(crate) async fn run(
        &self,
        call: &ScriptCall,
        deadline: Instant,
    ) -> Result<Answer, CallError> {
        let mut round = 1;
        loop {
            let connection = self.connected(deadline).await?;
            let reply = match round {
                1 => self.call_on(&connection, call.cmd(), deadline).await,
                _ => Box::pin(self.load_and_call(&connection, call, deadline)).await,
            };
            match reply.and_then(|reply| self.answer_of(&connection, call.number(), reply)) {
                Err(CallError::Server(error, _)) if is_noscript(&error) && round < ROUNDS => {
                    round += 1;
                }
                result => return result,
            }
        }
    }

    /// True if the next call is likely to be alone.
    pub(crate) fn is_quiet(&self) -> bool {
        self.current.load().as_ref().is_some_and(|connection| connection.is_quiet())
    }

    /// As [`run`](Self::run), for one that nothing else is likely to be sent with: `pack` writes it and returns its number,
    /// and the call is only made if it has to go through the client library's task.
    pub(crate) async fn run_alone(
        &self,
        deadline: Instant,
        pack: impl FnOnce(&mut Vec<u8>) -> u64,
        call: impl FnOnce() -> ScriptCall,
    ) -> Result<Answer, CallError> {
        let connection = self.connected(deadline).await?;
        if let Some((number, answer)) = connection.ask_alone(deadline, pack).await {
            let reply = match answer {
                Some(answer) => self.judge(&connection, Ok(answer)),
                None => self.out_of_time(),
            };
            match reply.and_then(|reply| self.answer_of(&connection, number, reply)) {
                Err(CallError::Server(error, _)) if is_noscript(&error) => {}
                result => return result,
            }
        }
        // Boxed: it is rare, and needs four times the room.
        Box::pin(self.run(&call(), deadline)).await
    }

    /// Loads the script of a call that has not run.
    pub(crate) async fn load(&self, call: &ScriptCall, deadline: Instant) -> Result<(), CallError> {
        self.call(&call.load(), deadline).await.map_err(CallError::nothing_ran).map(drop)
    }

    /// Loads the script of a call that has not run, and makes the call. The server gets both one right after the other: if the
    /// call waited for the answer to the first, scripts that are flushed again and again would be gone each time.
    pub(crate) async fn load_and_call(
        &self,
        connection: &Connection,
        call: &ScriptCall,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let load = call.load();
        // Each is sent by its first poll, in this order.
        let loaded = self.call_on(connection, &load, deadline);
        let (loaded, reply) = join(loaded, self.call_on(connection, call.cmd(), deadline)).await;
        match reply {
            Err(CallError::Server(error, server)) if is_noscript(&error) => {
                loaded.map_err(CallError::nothing_ran)?;
                Err(CallError::Server(error, server))
            }
            reply => reply,
        }
    }

    /// The script's answer in a reply to the call of that number. If the reply answers another request, so does every later one on this
    /// connection.
    pub(crate) fn answer_of(
        &self,
        connection: &Connection,
        number: u64,
        reply: Value,
    ) -> Result<Answer, CallError> {
        let Some(answer) = Answer::only_in(reply, number) else {
            self.mixed_up(connection);
            return Err(CallError::MixedUp);
        };
        self.heed_answer(connection, &answer);
        answer.unless_error().map_err(|error| CallError::Server(error, self.address_of(connection)))
    }

    /// As [`heed`](Self::heed), if the answer is an error.
    pub(crate) fn heed_answer(&self, connection: &Connection, answer: &Answer) {
        if let Answer::Other(Value::ServerError(error)) = answer {
            self.heed(connection, &error.clone().into());
        }
    }

    /// As [`answer_of`](Self::answer_of), for a batch of so many requests. An answer may be an error.
    pub(crate) fn answers_of(
        &self,
        connection: &Connection,
        call: &ScriptCall,
        requests: usize,
        reply: Value,
    ) -> Result<Vec<Answer>, CallError> {
        call.answers_of(reply, requests).ok_or_else(|| {
            self.mixed_up(connection);
            CallError::MixedUp
        })
    }
}
