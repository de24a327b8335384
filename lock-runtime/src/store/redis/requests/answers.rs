//! Parses the answers of scripts.

use std::time::Duration;

use redis::Value;

use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::redis::scripts::Answer;
use crate::store::{AcquireReply, HoldKind, Inspection, StoredHold, StoredWaiter};

/// The error of an answer that no script of this version gives.
pub(crate) fn surprise(answer: &Answer) -> StoreError {
    // Only the type of the answer: the answer itself might be an owner id.
    let shape = match answer {
        Answer::Number(_) => "an unexpected number",
        Answer::Other(Value::Nil) => "nothing",
        Answer::Token(_) | Answer::Other(Value::BulkString(_) | Value::SimpleString(_)) => {
            "unexpected text"
        }
        Answer::Other(_) => "an unexpected structure",
    };
    StoreError::new(StoreErrorKind::Protocol, format!("a lock script answered {shape}"))
}

pub(crate) fn number(answer: &Answer) -> Result<i64, StoreError> {
    match answer {
        Answer::Number(number) => Ok(*number),
        other => Err(surprise(other)),
    }
}

/// The answer of a script that acquires.
pub(crate) fn acquired(answer: &Answer, tokens: u32) -> Result<AcquireReply, StoreError> {
    match answer {
        Answer::Number(left) => Ok(AcquireReply::Held(remaining(*left))),
        Answer::Token(last) => first_token(*last, tokens).map(AcquireReply::Granted),
        Answer::Other(Value::Array(first)) => match first[..] {
            [Value::Int(left)] => Ok(AcquireReply::Behind(remaining(left))),
            [Value::Int(left), Value::Int(held)] => {
                Ok(AcquireReply::BehindRedisson { is_held: held == 1, left: remaining(left) })
            }
            _ => Err(surprise(answer)),
        },
        Answer::Other(Value::BulkString(_)) => Err(no_counter()),
        Answer::Other(_) => Err(surprise(answer)),
    }
}

/// A number of milliseconds; a negative number says that there is no end.
fn remaining(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

fn token(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The first of the reserved tokens; the script answers the last.
fn first_token(last: u64, tokens: u32) -> Result<FencingToken, StoreError> {
    let first = last.checked_sub(u64::from(tokens.max(1)) - 1);
    first.map(FencingToken::new).ok_or_else(no_counter)
}

fn no_counter() -> StoreError {
    let message = "the fencing counter is not a number; delete its key";
    StoreError::new(StoreErrorKind::Protocol, message)
}

/// The places, counted from zero, of the locks that a renewal found without their owner: all are below `locks`.
pub(crate) fn lost(answer: &Answer, locks: usize) -> Result<Vec<usize>, StoreError> {
    let place = |number: &Value| match number {
        Value::Int(number) => usize::try_from(*number).ok()?.checked_sub(1),
        _ => None,
    };
    let places = match answer {
        Answer::Number(0) => Some(Vec::new()),
        // An empty list confirms nothing: where no lock is lost, the scripts answer zero.
        Answer::Other(Value::Array(numbers)) if !numbers.is_empty() => {
            numbers.iter().map(place).collect()
        }
        _ => None,
    };
    let valid = |places: &Vec<usize>| places.iter().all(|place| *place < locks);
    places.filter(valid).ok_or_else(|| surprise(answer))
}

pub(crate) fn inspection(answer: &Answer) -> Result<Inspection, StoreError> {
    let parts = match answer {
        Answer::Other(Value::Array(parts)) => inspection_of(parts),
        _ => None,
    };
    parts.ok_or_else(|| surprise(answer))
}

fn inspection_of(parts: &[Value]) -> Option<Inspection> {
    let [
        Value::BulkString(kind),
        Value::Int(left),
        Value::BulkString(last),
        Value::Int(waiting),
        Value::Int(free),
        Value::Array(queue),
        holders @ ..,
    ] = parts
    else {
        return None;
    };
    let kind = match &kind[..] {
        b"" => None,
        b"mutex" => Some(HoldKind::Mutex),
        b"fair" => Some(HoldKind::Fair),
        b"read" => Some(HoldKind::Read),
        b"write" => Some(HoldKind::Write),
        b"semaphore" => Some(HoldKind::Semaphore),
        b"latch" => Some(HoldKind::Latch),
        _ => return None,
    };
    let holder = |pair: &[Value]| match pair {
        [Value::BulkString(owner), Value::Int(count)] => {
            // Redisson's permits are random bytes that name no client, and are enough to release them.
            let owner = std::str::from_utf8(owner).ok().filter(|owner| owner.contains(':'));
            Some(StoredHold::new(owner.unwrap_or(""), u32::try_from(*count).unwrap_or(u32::MAX)))
        }
        _ => None,
    };
    let waiter = |value: &Value| match value {
        Value::BulkString(owner) => std::str::from_utf8(owner).ok().map(StoredWaiter::new),
        _ => None,
    };
    Some(Inspection {
        kind,
        holders: holders.chunks(2).map(holder).collect::<Option<_>>()?,
        remaining: kind.and(remaining(*left)),
        last_token: token(last).map(FencingToken::new),
        waiting: usize::try_from(*waiting).unwrap_or(0),
        queue: queue.iter().map(waiter).collect::<Option<_>>()?,
        free_permits: u32::try_from(*free).ok(),
    })
}
