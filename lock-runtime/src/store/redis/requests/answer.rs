//! What the answers of scripts say.

use std::time::Duration;

use redis::Value;

use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{AcquireReply, Ownership};

/// An answer that no script of this version gives.
pub(crate) fn surprise(answer: &Value) -> StoreError {
    // The kind of value only: the value itself might be an owner.
    let shape = match answer {
        Value::Nil => "nothing",
        Value::Int(_) => "an unexpected number",
        Value::BulkString(_) | Value::SimpleString(_) => "unexpected text",
        _ => "an unexpected structure",
    };
    StoreError::new(StoreErrorKind::Protocol, format!("a lock script answered {shape}"))
}

/// What a script that takes a lock has answered.
pub(crate) fn acquired(answer: &Value, tokens: u32) -> Result<AcquireReply, StoreError> {
    match answer {
        Value::Int(pttl) => {
            Ok(AcquireReply::Held(u64::try_from(*pttl).ok().map(Duration::from_millis)))
        }
        Value::Array(first) => match first[..] {
            [Value::Int(left)] => {
                Ok(AcquireReply::Behind(u64::try_from(left).ok().map(Duration::from_millis)))
            }
            _ => Err(surprise(answer)),
        },
        Value::BulkString(text) => first_token(text, tokens).map(AcquireReply::Granted),
        other => Err(surprise(other)),
    }
}

/// The first of the reserved tokens, from the last.
fn first_token(last: &[u8], tokens: u32) -> Result<FencingToken, StoreError> {
    let last = std::str::from_utf8(last).ok().and_then(|text| text.parse::<u64>().ok());
    match last.and_then(|last| last.checked_sub(u64::from(tokens.max(1)) - 1)) {
        Some(first) => Ok(FencingToken::new(first)),
        None => Err(StoreError::new(
            StoreErrorKind::Protocol,
            "the fencing counter is not a number; delete its key",
        )),
    }
}

pub(crate) fn ownership(answer: &Value) -> Result<Ownership, StoreError> {
    match answer {
        Value::Int(1) => Ok(Ownership::Owner),
        Value::Int(0) => Ok(Ownership::NotOwner),
        other => Err(surprise(other)),
    }
}
