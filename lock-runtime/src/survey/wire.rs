//! What processes say to each other in a survey: JSON on two channels.
//!
//! A request is published on the survey channel; each client answers on the channel of that request, whose name follows from
//! the request's id, so a request cannot have a client publish anywhere else. An answer comes in parts that are small enough
//! for any server. It has no owner id, token, address or password.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::store::HoldKind;

/// The version of these messages. Others are ignored.
const VERSION: u8 = 1;

/// No request is longer than that.
const LONGEST_REQUEST: usize = 4 * 1024;

/// About how many bytes an answer may have: 64 KiB with all that is not a hold or a wait.
const ROOM: usize = 60 * 1024;

/// No part of an answer is longer than that: with one line beyond [`ROOM`], whose name, place and policy are long.
pub(super) const LONGEST_ANSWER: usize = 128 * 1024;

/// Asks every client of a store for its holds and waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    v: u8,
    pub(super) id: Uuid,
    /// Locks whose full names begin so.
    #[serde(default)]
    pub(super) prefix: String,
    /// At most so many holds, and so many waits, of each client.
    pub(super) limit: usize,
}

/// A part of the answer of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    v: u8,
    pub(super) id: Uuid,
    pub(super) client: Identity,
    /// The number of this part, from zero.
    #[serde(default)]
    pub(super) part: u32,
    #[serde(default)]
    pub(super) holds: Vec<HoldLine>,
    #[serde(default)]
    pub(super) waits: Vec<WaitLine>,
    /// True if another part follows.
    #[serde(default)]
    pub(super) more: bool,
    /// True if the limit has left some out.
    #[serde(default)]
    pub(super) cut: bool,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) id: Uuid,
    pub(super) service: String,
    pub(super) host: String,
    pub(super) pid: u32,
    /// In milliseconds since 1970.
    pub(super) started: u64,
    pub(super) version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HoldLine {
    /// A number for people, by which waits name the holds that they are inside of.
    pub(super) hold: u64,
    pub(super) name: String,
    pub(super) kind: HoldKind,
    #[serde(with = "millis")]
    pub(super) held_for: Duration,
    #[serde(with = "millis")]
    pub(super) left: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) site: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WaitLine {
    /// When it began, on a clock of that process: the same number is the same wait.
    pub(super) began: u64,
    pub(super) name: String,
    pub(super) kind: HoldKind,
    #[serde(with = "millis")]
    pub(super) waited_for: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) site: Option<String>,
    /// The holds around it, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inside: Vec<u64>,
}

/// Times as whole milliseconds.
pub(super) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Duration,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(in super::super) fn serialize_some<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serialize(time, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// The channel of requests, for clients with that namespace.
pub(super) fn channel(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}:lock_runtime:survey"),
        None => "lock_runtime:survey".to_owned(),
    }
}

impl Request {
    pub(super) fn new(prefix: String, limit: usize) -> Self {
        Self { v: VERSION, id: Uuid::new_v4(), prefix, limit }
    }

    /// Reads a message. `None` if it is no request of this version.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        if message.len() > LONGEST_REQUEST {
            return None;
        }
        serde_json::from_slice(message).ok().filter(|request: &Self| request.v == VERSION)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The channel of its answers.
    pub(super) fn reply_channel(&self, channel: &str) -> String {
        format!("{channel}:{}", self.id)
    }
}

impl Answer {
    /// Reads a message. `None` if it is no answer of this version to that request.
    pub(super) fn read(message: &[u8], request: Uuid) -> Option<Self> {
        let answer: Self = serde_json::from_slice(message).ok()?;
        (answer.v == VERSION && answer.id == request).then_some(answer)
    }

    /// The whole answer, in parts.
    pub(super) fn parts(
        request: Uuid,
        client: &Identity,
        holds: Vec<HoldLine>,
        waits: Vec<WaitLine>,
        cut: bool,
    ) -> Vec<Vec<u8>> {
        let numbered = |number: usize| Self {
            v: VERSION,
            id: request,
            client: client.clone(),
            part: u32::try_from(number).unwrap_or(u32::MAX),
            holds: Vec::new(),
            waits: Vec::new(),
            more: true,
            cut,
        };
        let (mut parts, mut part, mut room) = (Vec::new(), numbered(0), ROOM);
        let lines = holds.into_iter().map(Line::Hold).chain(waits.into_iter().map(Line::Wait));
        for line in lines {
            let size = line.most_bytes();
            if size > room && room < ROOM {
                let next = numbered(parts.len() + 1);
                parts.push(std::mem::replace(&mut part, next));
                room = ROOM;
            }
            room = room.saturating_sub(size);
            match line {
                Line::Hold(hold) => part.holds.push(hold),
                Line::Wait(wait) => part.waits.push(wait),
            }
        }
        part.more = false;
        parts.push(part);
        parts.iter().map(|part| serde_json::to_vec(part).unwrap_or_default()).collect()
    }
}

enum Line {
    Hold(HoldLine),
    Wait(WaitLine),
}

impl Line {
    /// About as many bytes as it takes as JSON, or more.
    fn most_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, |text| in_json(text));
        260 + match self {
            Self::Hold(hold) => in_json(&hold.name) + text(&hold.site) + text(&hold.policy),
            Self::Wait(wait) => in_json(&wait.name) + text(&wait.site) + 21 * wait.inside.len(),
        }
    }
}

/// The bytes of a text as JSON, where a control character takes six.
fn in_json(text: &str) -> usize {
    text.bytes()
        .map(|byte| if byte < b' ' { 6 } else { 1 + usize::from(byte == b'"' || byte == b'\\') })
        .sum()
}
