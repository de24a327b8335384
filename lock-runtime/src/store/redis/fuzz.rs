//! The parsers of everything that a server sends, for the fuzz targets of the workspace: from bytes as they arrive to
//! what the rest of the crate makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redis::{Value, parse_redis_value};

use super::cluster::slots::{NodeAddress, ranges};
use super::endpoint::sentinel::node::named;
use super::endpoint::sentinel::{Sentinels, says_master};
use super::link::Notices;
use super::requests::answers;
use super::requests::info::value_of;
use super::scripts::Answer;
use super::server::address::client;
use super::server::errors::server_error;
use super::server::frames::Frames;
use super::server::slot::slot_of;
use crate::error::StoreError;
use crate::store::{AcquireReply, Inspection};

/// What the client makes of the reply to one call; `None` if the bytes are no reply, or the reply to another call.
pub type Read<T> = Option<Result<T, StoreError>>;

/// One answer of a script, in a form that targets can compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A number.
    Number(i64),
    /// A fencing token.
    Token(u64),
    /// Neither.
    Other,
}

/// The address of the server in error messages.
const SERVER: &str = "127.0.0.1:6379";

fn value(reply: &[u8]) -> Option<Value> {
    parse_redis_value(reply).ok()
}

fn only<T>(reply: &[u8], number: u64, read: impl Fn(&Answer) -> Result<T, StoreError>) -> Read<T> {
    let answer = Answer::only_in(value(reply)?, number)?;
    Some(
        answer
            .unless_error()
            .map_err(|error| server_error(error, SERVER))
            .and_then(|answer| read(&answer)),
    )
}

/// Reads the reply to call `number`, which acquires one lock and reserves `tokens` fencing tokens.
pub fn acquired(reply: &[u8], number: u64, tokens: u32) -> Read<AcquireReply> {
    only(reply, number, |answer| answers::acquired(answer, tokens))
}

/// Reads the reply to call `number`, which acquires `requests` locks.
pub fn acquired_together(
    reply: &[u8],
    number: u64,
    requests: usize,
    tokens: u32,
) -> Option<Vec<Result<AcquireReply, StoreError>>> {
    let answers = Answer::all_in(value(reply)?, number, requests)?;
    let read = |answer: Answer| {
        let answer = answer.unless_error().map_err(|error| server_error(error, SERVER))?;
        answers::acquired(&answer, tokens)
    };
    Some(answers.into_iter().map(read).collect())
}

/// Reads the reply to call `number` of `requests` requests, as answers that nothing has judged yet.
pub fn answers_in(reply: &[u8], number: u64, requests: usize) -> Option<Vec<Parsed>> {
    let parsed = |answer: Answer| match answer {
        Answer::Number(number) => Parsed::Number(number),
        Answer::Token(token) => Parsed::Token(token),
        Answer::Other(_) => Parsed::Other,
    };
    Some(Answer::all_in(value(reply)?, number, requests)?.into_iter().map(parsed).collect())
}

/// Reads the reply to call `number`, which renews `locks` locks: the places of those that are lost.
pub fn renewed(reply: &[u8], number: u64, locks: usize) -> Read<Vec<usize>> {
    only(reply, number, |answer| answers::lost(answer, locks))
}

/// Reads the reply to call `number`, which inspects a name.
pub fn inspected(reply: &[u8], number: u64) -> Read<Inspection> {
    only(reply, number, answers::inspection)
}

/// Slots, and the host and port of the node that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
    /// The node.
    pub node: (String, u16),
}

fn asked() -> NodeAddress {
    NodeAddress { host: "asked".to_owned(), port: 7000 }
}

/// Reads the reply of the node `asked:7000` to CLUSTER SLOTS.
pub fn slots(reply: &[u8]) -> Option<Vec<Slots>> {
    let ranges = ranges(&value(reply)?, &asked())?.into_iter();
    let slots = ranges.map(|range| {
        let node = (range.owner.host, range.owner.port);
        Slots { first: range.first, last: range.last, node }
    });
    Some(slots.collect())
}

/// Reads the address in a redirection by the node `asked:7000`.
pub fn redirection(text: &str) -> Option<(String, u16)> {
    NodeAddress::parse(text, &asked()).map(|node| (node.host, node.port))
}

/// Returns the cluster slot of a key or channel.
pub fn slot(name: &str) -> u16 {
    slot_of(name)
}

/// The master that a sentinel names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedMaster {
    /// Its host and port.
    pub at: (String, u16),
    /// The epoch of the configuration.
    pub epoch: u64,
    /// After which silence the sentinels replace it.
    pub down_after: Option<Duration>,
}

/// Reads a sentinel's replies about its master: its address, and its state. `None` if a reply cannot be read.
pub fn master(address: &[u8], state: &[u8]) -> Option<Option<NamedMaster>> {
    let named = named(value(address)?, value(state)).ok()?;
    Some(named.map(|master| NamedMaster {
        at: (master.host.to_string(), master.port),
        epoch: master.epoch,
        down_after: master.down_after,
    }))
}

/// Reads the reply to ROLE: true for a master. `None` if the reply cannot be read.
pub fn is_master(reply: &[u8]) -> Option<bool> {
    says_master(&value(reply)?).ok()
}

/// Returns the value of a field in the text of INFO.
pub fn info(text: &str, field: &str) -> Option<String> {
    value_of(text, field).map(str::to_owned)
}

/// The listeners that a message on one channel notifies: those that wait for any message, and those of `waiters`.
pub fn notified(waiters: &BTreeSet<u64>, message: &[u8]) -> (bool, BTreeSet<u64>) {
    let notices = Arc::new(Notices::default());
    let all = notices.subscribe();
    let listening: Vec<_> =
        waiters.iter().map(|waiter| (*waiter, notices.listen(Some(*waiter)))).collect();
    notices.count(message);
    let is_notified = |counter: &tokio::sync::watch::Receiver<u64>| {
        counter.has_changed().is_ok_and(|has_changed| has_changed)
    };
    let named = listening.iter().filter(|(_, (counter, _))| is_notified(counter));
    (is_notified(&all), named.map(|(waiter, _)| *waiter).collect())
}

/// Reads the address of a server: its host or path as it would be shown, and its database.
///
/// # Errors
///
/// When it cannot be used.
pub fn server(url: &str) -> Result<(String, i64), StoreError> {
    let client = client(url, None)?;
    let info = client.get_connection_info();
    Ok((info.addr().to_string(), info.redis_settings().db()))
}

/// Checks the name of a master and the addresses of its sentinels.
///
/// # Errors
///
/// When they cannot be used.
pub fn sentinels(master: &str, nodes: &[&str]) -> Result<(), StoreError> {
    Sentinels::parse(master, nodes, None).map(drop)
}

/// Returns where messages end in what a server sends, if it arrives in pieces of `size` bytes.
///
/// # Panics
///
/// If `size` is zero.
pub fn message_ends(sent: &[u8], size: usize) -> Vec<usize> {
    let (mut frames, mut ends, mut arrived) = (Frames::default(), Vec::new(), 0);
    for piece in sent.chunks(size) {
        arrived += piece.len();
        let mut rest = piece;
        while let Some(end) = frames.end_in(rest) {
            rest = &rest[end..];
            ends.push(arrived - rest.len());
        }
    }
    ends
}

/// True if the client library reads a whole message at the beginning of these bytes.
pub fn is_message(sent: &[u8]) -> bool {
    value(sent).is_some()
}
