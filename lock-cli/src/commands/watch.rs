//! `lockctl watch`: each change of a lock as it happens.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use lock_runtime::LockClient;
use lock_runtime::admin::{HoldKind, Inspection, Survey, SurveyedHolder};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::show::find;
use crate::answer::Answer;
use crate::args::Args;
use crate::failure::{Failure, with_causes};
use crate::text::harmless;

/// How often it looks. A grant and its release between two looks show in the fencing token.
const EVERY: Duration = Duration::from_millis(200);

/// How long a client may take to say who it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// A holder, as the store knows it.
type Holder = (String, Option<u64>);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Granted {
        to: Holder,
        kind: HoldKind,
        token: Option<u64>,
    },
    /// The same client has it again: a hand-off between its tasks, or a release that no look has met.
    GrantedAgain {
        to: Holder,
        token: u64,
    },
    Released {
        by: Holder,
    },
    /// Its lease ended.
    Expired {
        by: Holder,
    },
    /// It was granted and is free again, at least once, and no look has met that.
    Missed {
        token: u64,
    },
}

/// What one look has shown.
struct Look {
    at: Instant,
    found: Inspection,
}

pub(super) async fn watch(
    client: &LockClient,
    args: &Args,
    name: &str,
    time: Option<Duration>,
) -> Result<Answer, Failure> {
    // A time without an end is none.
    let end = time.and_then(|time| Instant::now().checked_add(time));
    let mut watch =
        Watch { client, args, name, names: BTreeMap::new(), is_silent: false, missed: 0 };
    // What is wrong with the name or the address ends it; an outage later does not.
    let mut last = Look { at: Instant::now(), found: Inspection::default() };
    let mut now = Look { at: Instant::now(), found: client.admin().inspect(name).await? };
    let times = Duration::from_secs(1).as_millis() / EVERY.as_millis();
    eprintln!(
        "lockctl: looks {times} times a second; grants that begin and end in between show in the token only"
    );
    // Its tokens so far are no news.
    last.found.last_token = now.found.last_token.filter(|_| now.found.holders.is_empty());
    loop {
        for change in changes(&last, &now) {
            if !watch.tell(change).await? {
                return Ok(Answer::end());
            }
        }
        last = now;
        now = loop {
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(Answer::end());
            }
            sleep(EVERY).await;
            if let Some(look) = watch.look().await? {
                break look;
            }
        };
    }
}

/// What has changed between two looks.
fn changes(last: &Look, now: &Look) -> Vec<Change> {
    let holders = |look: &Look| -> Vec<Holder> {
        let all = look.found.holders.iter();
        all.map(|holder| (holder.client.clone(), holder.thread)).collect()
    };
    let (before, after) = (holders(last), holders(now));
    let is_over = last.found.remaining.is_some_and(|left| last.at + left <= now.at);
    let mut changes = Vec::new();
    for by in before.iter().filter(|holder| !after.contains(holder)).cloned() {
        changes.push(if is_over { Change::Expired { by } } else { Change::Released { by } });
    }
    let token = now.found.last_token.map(|token| token.get());
    let kind = now.found.kind.unwrap_or(HoldKind::Mutex);
    for to in after.iter().filter(|holder| !before.contains(holder)).cloned() {
        changes.push(Change::Granted { to, kind, token });
    }
    let last_token = last.found.last_token.map(|token| token.get());
    if let ([to], Some(token)) = (&after[..], token)
        && before == after
        && Some(token) > last_token
    {
        changes.push(Change::GrantedAgain { to: to.clone(), token });
    }
    // The token of a holder that this look has met is its own, and one that has no holder is of a hold that is over.
    if let ([], Some(token)) = (&after[..], token)
        && Some(token) > last_token
    {
        changes.push(Change::Missed { token });
    }
    changes
}

struct Watch<'a> {
    client: &'a LockClient,
    args: &'a Args,
    name: &'a str,
    /// What clients have said of themselves.
    names: BTreeMap<String, String>,
    /// True while the store does not answer.
    is_silent: bool,
    /// How often a token has shown that a look came too late.
    missed: u64,
}

impl Watch<'_> {
    /// Looks once; `None` if the store does not answer.
    async fn look(&mut self) -> Result<Option<Look>, Failure> {
        match self.client.admin().inspect(self.name).await {
            Ok(found) => {
                let at = Instant::now();
                if std::mem::take(&mut self.is_silent) {
                    self.print("answers", "the store answers again", json!({}))?;
                }
                Ok(Some(Look { at, found }))
            }
            Err(error) if self.is_silent => {
                drop(error);
                Ok(None)
            }
            Err(error) => {
                self.is_silent = true;
                let sentence = with_causes(&error);
                self.print("silent", &sentence, json!({ "error": sentence }))?;
                Ok(None)
            }
        }
    }

    /// Prints a change. False if nothing reads any more.
    async fn tell(&mut self, change: Change) -> Result<bool, Failure> {
        match change {
            Change::Granted { to, kind, token } => {
                let who = self.who(&to).await;
                let with_token = token.map(|token| format!(", token {token}")).unwrap_or_default();
                let text = format!("to {who} as a {kind}{with_token}");
                let json = json!({ "holder": who, "kind": kind, "token": token });
                self.print("granted", &text, json)
            }
            Change::GrantedAgain { to, token } => {
                let who = self.who(&to).await;
                let json = json!({ "holder": who, "token": token });
                self.print("granted", &format!("again to {who}, token {token}"), json)
            }
            Change::Expired { by } => {
                let who = self.who(&by).await;
                let text = format!("by {who}, whose lease ended");
                self.print("lost", &text, json!({ "holder": who }))
            }
            Change::Missed { token } => {
                self.missed += 1;
                let text = format!("a grant, or several, between two looks, up to token {token}");
                self.print("missed", &text, json!({ "token": token, "missed": self.missed }))
            }
            Change::Released { by } => {
                let survey = self.survey().await;
                let is_claimed = match &survey {
                    Some(survey) => claims(survey, self.client, self.name, &by.0)?,
                    None => false,
                };
                let who = self.who(&by).await;
                let json = json!({ "holder": who });
                match is_claimed {
                    true => {
                        self.print("forced", &format!("from {who}, which did not release it"), json)
                    }
                    false => self.print("released", &format!("by {who}"), json),
                }
            }
        }
    }

    /// What a client calls itself, or the beginning of its id.
    async fn who(&mut self, (id, thread): &Holder) -> String {
        if !self.names.contains_key(id)
            && let Some(survey) = self.survey().await
        {
            let clients = survey.clients.iter();
            let named = clients.map(|one| (one.client.id.clone(), one.client.to_string()));
            self.names.extend(named);
            // Of one that does not answer, a survey has the beginning of its id, and perhaps the name of its connection.
            let mut holders = survey.locks.iter().flat_map(|lock| &lock.holders);
            let is_it = |holder: &&SurveyedHolder| {
                holder.client.is_none() && id.starts_with(holder.client_id.trim_end_matches('…'))
            };
            if let Some(name) = holders.find(is_it).and_then(|holder| holder.last_known.clone()) {
                self.names.entry(id.clone()).or_insert(name);
            }
        }
        let id = match (self.names.get(id), thread) {
            (Some(name), _) => name.clone(),
            (None, Some(thread)) => format!("Redisson client {}, thread {thread}", beginning(id)),
            (None, None) => format!("client {}", beginning(id)),
        };
        harmless(&id)
    }

    async fn survey(&self) -> Option<Survey> {
        let survey = self.client.admin().survey().name(self.name);
        survey.within(self.args.store.within.min(PATIENCE)).await.ok()
    }

    fn print(&self, event: &str, text: &str, mut json: Value) -> Result<bool, Failure> {
        let at = humantime::format_rfc3339_millis(SystemTime::now());
        json["at"] = json!(at.to_string());
        json["event"] = json!(event);
        crate::write(&match self.args.json {
            true => format!("{json}\n"),
            false => format!("{at}  {event:<8}  {text}\n"),
        })
    }
}

/// True if the client still lists its hold: it has not released it.
fn claims(survey: &Survey, client: &LockClient, name: &str, id: &str) -> Result<bool, Failure> {
    let lock = find(survey, client, name)?;
    Ok(lock.is_some_and(|lock| {
        lock.holders.iter().any(|holder| holder.client_id == id && holder.held_for.is_some())
    }))
}

fn beginning(id: &str) -> String {
    id.get(..8).map_or_else(|| id.to_owned(), |beginning| format!("{beginning}…"))
}
