//! What processes say to each other in a survey: JSON on two channels.
//!
//! A request is published on the survey channel; each client answers on the channel of that request, whose name follows from
//! the request's id, so a request cannot have a client publish anywhere else. An answer comes in parts that are small enough
//! for any server. It has no owner id, token, address or password.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SurveyedProcess;
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
    pub(super) client: Arc<SurveyedProcess>,
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

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    fn whole(time: &Duration) -> u64 {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Duration,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_u64(whole(time))
    }

    pub(in super::super) fn serialize_some<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.as_ref().map(whole).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Duration, D::Error> {
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

    /// The channel of its answers.
    pub(super) fn reply_channel(&self, channel: &str) -> String {
        format!("{channel}:{}", self.id)
    }
}

impl Answer {
    /// An answer to that request, without a hold or a wait.
    pub(super) fn new(request: Uuid, client: &Arc<SurveyedProcess>) -> Self {
        let (id, client) = (request, Arc::clone(client));
        let (holds, waits) = (Vec::new(), Vec::new());
        Self { v: VERSION, id, client, part: 0, holds, waits, more: false, cut: false }
    }

    /// Reads a message. `None` if it is no answer of this version to that request.
    pub(super) fn read(message: &[u8], request: Uuid) -> Option<Self> {
        let answer: Self = serde_json::from_slice(message).ok()?;
        // Locks are released by the beginning of an id, so what is none must not look like one.
        let is_client = Uuid::try_parse(&answer.client.id).is_ok();
        (answer.v == VERSION && answer.id == request && is_client).then_some(answer)
    }

    /// Returns the messages that have all its holds and waits.
    pub(super) fn into_parts(mut self) -> Vec<Vec<u8>> {
        let (holds, waits) = (take(&mut self.holds), take(&mut self.waits));
        (self.part, self.more) = (0, false);
        let (mut done, mut room) = (Vec::new(), ROOM);
        for hold in holds {
            self.make_room(&hold, &mut room, &mut done);
            self.holds.push(hold);
        }
        for wait in waits {
            self.make_room(&wait, &mut room, &mut done);
            self.waits.push(wait);
        }
        done.push(to_json(&self));
        done
    }

    /// Takes the room of a line. Ends this part first and begins the next one, if there is not enough left.
    fn make_room(&mut self, line: &impl Serialize, room: &mut usize, done: &mut Vec<Vec<u8>>) {
        let size = to_json(line).len();
        if size > *room && *room < ROOM {
            self.more = true;
            done.push(to_json(self));
            (self.part, self.more, *room) = (self.part + 1, false, ROOM);
            self.holds.clear();
            self.waits.clear();
        }
        *room = room.saturating_sub(size + 1);
    }
}

pub(super) fn to_json(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}
