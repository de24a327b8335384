//! Script calls whose answers say which request they answer.
//!
//! A connection answers in the order of its requests, and nothing else ties an answer to its request. If one
//! answer is swallowed on the way, each later one would be taken for that of the request before: a grant of
//! another lock, the release of another hold. So each call has a number, which the server sends back.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, Value};

/// Starts at random: a proxy may mix up the answers of several processes.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(fastrand::u64(..1 << 48)));

/// A complete call of a script.
pub(crate) struct NumberedCall {
    cmd: Cmd,
    number: u64,
}

impl NumberedCall {
    /// Completes a call that has all keys and arguments.
    pub(crate) fn new(mut cmd: Cmd) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        cmd.arg(number);
        Self { cmd, number }
    }

    pub(crate) fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// What the script answers to this call; nothing if the answer is another request's.
    pub(crate) fn answer_of(&self, reply: Value) -> Option<Value> {
        let Value::Array(pair) = reply else { return None };
        let [Value::BulkString(number), answer] = <[Value; 2]>::try_from(pair).ok()? else {
            return None;
        };
        (number == self.number.to_string().as_bytes()).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reply_with_the_number_is_an_answer() {
        let call = NumberedCall::new(redis::cmd("EVALSHA"));
        let text = |number: u64| Value::BulkString(number.to_string().into_bytes());
        let reply = |number| Value::Array(vec![text(number), Value::Int(7)]);
        assert_eq!(call.answer_of(reply(call.number)), Some(Value::Int(7)));
        for other in [
            reply(call.number + 1),
            Value::Int(7),
            text(call.number),
            Value::Array(vec![text(call.number)]),
            Value::Array(vec![text(call.number), Value::Int(7), Value::Int(7)]),
        ] {
            assert_eq!(call.answer_of(other), None);
        }
    }
}
