//! Parses the answers of scripts.

use std::time::Duration;

use redis::Value;

use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{AcquireReply, HoldKind, Inspection, Ownership, StoredHold};

/// The error of an answer that no script of this version gives.
pub(crate) fn surprise(answer: &Value) -> StoreError {
    // Only the type of the value: the value itself might be an owner id.
    let shape = match answer {
        Value::Nil => "nothing",
        Value::Int(_) => "an unexpected number",
        Value::BulkString(_) | Value::SimpleString(_) => "unexpected text",
        _ => "an unexpected structure",
    };
    StoreError::new(StoreErrorKind::Protocol, format!("a lock script answered {shape}"))
}

pub(crate) fn number(answer: &Value) -> Result<i64, StoreError> {
    match answer {
        Value::Int(number) => Ok(*number),
        other => Err(surprise(other)),
    }
}

/// The answer of a script that acquires.
pub(crate) fn acquired(answer: &Value, tokens: u32) -> Result<AcquireReply, StoreError> {
    match answer {
        Value::Int(left) => Ok(AcquireReply::Held(remaining(*left))),
        Value::Array(first) => match first[..] {
            [Value::Int(left)] => Ok(AcquireReply::Behind(remaining(left))),
            _ => Err(surprise(answer)),
        },
        Value::BulkString(text) => first_token(text, tokens).map(AcquireReply::Granted),
        other => Err(surprise(other)),
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
fn first_token(last: &[u8], tokens: u32) -> Result<FencingToken, StoreError> {
    match token(last).and_then(|last| last.checked_sub(u64::from(tokens.max(1)) - 1)) {
        Some(first) => Ok(FencingToken::new(first)),
        None => Err(StoreError::new(
            StoreErrorKind::Protocol,
            "the fencing counter is not a number; delete its key",
        )),
    }
}

pub(super) fn ownership(answer: &Value) -> Result<Ownership, StoreError> {
    match answer {
        Value::Int(1) => Ok(Ownership::Owner),
        Value::Int(0) => Ok(Ownership::NotOwner),
        other => Err(surprise(other)),
    }
}

pub(crate) fn inspection(answer: &Value) -> Result<Inspection, StoreError> {
    let parts = answer.as_sequence().and_then(inspection_of);
    parts.ok_or_else(|| surprise(answer))
}

fn inspection_of(parts: &[Value]) -> Option<Inspection> {
    let [
        Value::BulkString(kind),
        Value::Int(left),
        Value::BulkString(last),
        Value::Int(waiting),
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
    Some(Inspection {
        kind,
        holders: holders.chunks(2).map(holder).collect::<Option<_>>()?,
        remaining: kind.and(remaining(*left)),
        last_token: token(last).map(FencingToken::new),
        waiting: usize::try_from(*waiting).unwrap_or(0),
    })
}
