//! A command of the caller's own under a hold: the call of its script, its slot and its outcome.
// S-37.

use redis::{RedisError, ServerError, Value};

use super::answers::surprise;
use super::calls::field;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::RedisValue;
use crate::store::redis::scripts::{Answer, FENCED, Publish, ScriptCall};
use crate::store::redis::server::errors::{config_error, kind_of};
use crate::store::redis::server::slot::{slot_of, tag_of};
use crate::store::{Command, CommandRequest};

pub(crate) fn call(publish: Publish, request: &CommandRequest) -> ScriptCall {
    let command = &request.command;
    let locks = request.locks().count();
    FENCED.call(publish, locks + command.keys.len(), |call| {
        for (lock, _) in request.locks() {
            call.arg(lock.key().as_str());
        }
        call.arg(&command.keys).arg(locks);
        for (lock, owner) in request.locks() {
            call.arg(&*field(lock, owner));
        }
        call.arg(&command.name).arg(&command.args);
    })
}

/// The one slot of the locks and of the keys of the command.
pub(crate) fn slot(request: &CommandRequest) -> Result<u16, StoreError> {
    let mut locks = request.locks().map(|(lock, _)| lock.key().as_str());
    let lock = locks.next().unwrap_or_default();
    let slot = slot_of(lock);
    let mut names = locks.chain(request.command.keys.iter().map(String::as_str));
    let Some(other) = names.find(|name| slot_of(name) != slot) else { return Ok(slot) };
    let (tag, rest) = (tag_of(lock), other.replace(['{', '}'], ""));
    Err(config_error(format!(
        "the key {other:?} is in another slot of the cluster than the lock {lock:?}, and one script cannot have both; give it the \
         hash tag of the lock, as in \"{{{tag}}}:{rest}\""
    )))
}

/// The answer of the command; `None` if the hold does not own its locks.
pub(crate) fn outcome(answer: Answer, command: &Command) -> Result<Option<RedisValue>, StoreError> {
    let unexpected = surprise(&answer);
    match answer {
        Answer::Number(0) => Ok(None),
        Answer::Other(Value::Array(parts)) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::Int(1), Value::ServerError(error)]) => Err(refused(error, command)),
            Ok([Value::Int(1), answer]) => match value(answer) {
                Some(answer) => Ok(Some(answer)),
                None => Err(unreadable(command)),
            },
            _ => Err(unexpected),
        },
        _ => Err(unexpected),
    }
}

/// The error of a command that the server did not run.
fn refused(error: ServerError, command: &Command) -> StoreError {
    let error = RedisError::from(error);
    let (code, detail) = (error.code().unwrap_or("ERR"), error.detail().unwrap_or_default());
    let is_elsewhere = detail.contains("non local key") || detail.contains("same slot");
    let help = if is_elsewhere { "; name each of its keys by `key`" } else { "" };
    let kind = match kind_of(&error) {
        // The script ends with this command.
        StoreErrorKind::OutcomeUnknown | StoreErrorKind::Protocol => StoreErrorKind::Command,
        kind => kind,
    };
    // Not as the source, by which a request to a cluster is repeated.
    StoreError::new(kind, format!("the server refused {:?}: {code} {detail}{help}", command.name))
}

fn unreadable(command: &Command) -> StoreError {
    let message = format!("{:?} ran, and a part of its answer is an error", command.name);
    StoreError::new(StoreErrorKind::Protocol, message)
}

/// What a script answers in RESP2, which has no other types.
fn value(answer: Value) -> Option<RedisValue> {
    Some(match answer {
        Value::Nil => RedisValue::Nil,
        Value::Int(number) => RedisValue::Integer(number),
        Value::BulkString(bytes) => RedisValue::Bytes(bytes),
        Value::Okay => RedisValue::Status("OK".to_owned()),
        Value::SimpleString(status) => RedisValue::Status(status),
        Value::Array(parts) => {
            RedisValue::Array(parts.into_iter().map(value).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
