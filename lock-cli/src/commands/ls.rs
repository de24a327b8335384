//! `lockctl ls`: a table of locks.

use std::time::Duration;

use lock_runtime::LockClient;
use lock_runtime::admin::{HoldKind, SurveyedHolder, SurveyedLock};
use serde_json::json;

use super::{notes, own_name, survey};
use crate::answer::{Answer, table};
use crate::args::{Args, Ls};
use crate::failure::Failure;
use crate::text::{harmless, time_or_dash};

pub(super) async fn ls(client: &LockClient, args: &Args, ls: &Ls) -> Result<Answer, Failure> {
    let prefix = own_name(client, &ls.prefix);
    let mut survey = survey(client, args).prefix(prefix).limit(ls.limit).await?;
    let kind = ls.kind.map(HoldKind::from);
    survey.locks.retain(|lock| {
        kind.is_none_or(|kind| lock.kind == Some(kind))
            && ls.held_longer.is_none_or(|least| held_for(lock) > Some(least))
    });
    let header = ["NAME", "KIND", "HOLDER", "HELD FOR", "LEASE LEFT", "WAITERS"];
    let text = table(header, &[3, 4, 5], survey.locks.iter().map(row));
    let json = json!({
        "locks": survey.locks,
        "missing": survey.missing,
        "unaccounted": survey.unaccounted,
        "is_complete": survey.is_complete,
    });
    Ok(Answer::new(text, json).with_notes(notes(&survey, args)))
}

fn row(lock: &SurveyedLock) -> [String; 6] {
    let kind = lock.kind.map_or_else(|| "-".to_owned(), |kind| kind.to_string());
    [
        harmless(lock.key.as_str()),
        kind,
        holder(&lock.holders),
        time_or_dash(held_for(lock)),
        time_or_dash(lock.remaining),
        lock.waiters.len().max(lock.waiting_in_store).to_string(),
    ]
}

/// The first holder, and how many more there are.
fn holder(holders: &[SurveyedHolder]) -> String {
    match holders {
        [] => "-".to_owned(),
        [one] => harmless(&one.to_string()),
        [first, others @ ..] => {
            format!("{} and {} more", harmless(&first.to_string()), others.len())
        }
    }
}

/// How long the longest hold has been held.
fn held_for(lock: &SurveyedLock) -> Option<Duration> {
    lock.holders.iter().filter_map(|holder| holder.held_for).max()
}
