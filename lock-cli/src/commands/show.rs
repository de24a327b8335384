//! `lockctl show`: everything about one lock.

use std::fmt::Write;

use lock_runtime::LockClient;
use lock_runtime::admin::{Inspection, Survey, SurveyedLock};
use serde_json::json;

use super::{notes, survey};
use crate::answer::{Answer, table};
use crate::args::Args;
use crate::failure::{Failure, NO, with_causes};
use crate::text::{harmless, harmless_or_dash, time, time_or_dash};

pub(super) async fn show(client: &LockClient, args: &Args, name: &str) -> Result<Answer, Failure> {
    let found = client.admin().inspect(name).await?;
    let survey = survey(client, args).name(name).await?;
    let lock = find(&survey, client, name)?;
    let Some(lock) = lock.filter(|lock| is_held(lock) || is_waited_for(lock)) else {
        let last = found.last_token.map(|token| token.get());
        let known =
            last.map_or(String::new(), |last| format!("; its last fencing token is {last}"));
        let full_name = client.key(name)?;
        let full_name = harmless(full_name.as_str());
        check_asked(&full_name, &found, &survey)?;
        let text = format!("{full_name} is free, and no client waits for it{known}\n");
        let json = json!({ "lock": null, "last_token": last, "missing": survey.missing });
        return Ok(Answer::new(text, json).with_notes(notes(&survey, args)).with_code(NO));
    };
    let json = json!({
        "lock": lock,
        "last_token": found.last_token.map(|token| token.get()),
        "missing": survey.missing,
    });
    Ok(Answer::new(text(lock, &found), json).with_notes(notes(&survey, args)))
}

/// The lock of that name, which the client's namespace may precede.
pub(super) fn find<'a>(
    survey: &'a Survey,
    client: &LockClient,
    name: &str,
) -> Result<Option<&'a SurveyedLock>, Failure> {
    let key = client.key(name)?;
    Ok(survey.locks.iter().find(|lock| lock.key == key))
}

/// Fails if a lock that is not in the survey was held a moment before, and the survey could not ask the store: then it is not
/// known to be free.
pub(super) fn check_asked(
    full_name: &str,
    found: &Inspection,
    survey: &Survey,
) -> Result<(), Failure> {
    match &survey.not_listed {
        Some(error) if !found.holders.is_empty() => Err(Failure::store(format!(
            "{full_name} is held, and the store could not be asked which client holds it: {}",
            with_causes(error)
        ))),
        _ => Ok(()),
    }
}

/// True if the store knows a holder.
pub(super) fn is_held(lock: &SurveyedLock) -> bool {
    lock.holders.iter().any(|holder| holder.count > 0)
}

fn is_waited_for(lock: &SurveyedLock) -> bool {
    !lock.waiters.is_empty() || lock.waiting_in_store > 0
}

fn text(lock: &SurveyedLock, found: &Inspection) -> String {
    let mut text = format!("{}\n", harmless(lock.key.as_str()));
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    line("kind", lock.kind.map_or_else(|| "free".to_owned(), |kind| kind.to_string()));
    if lock.kind.is_some() {
        let left = match lock.remaining {
            Some(left) => format!("free in {} unless renewed", time(left)),
            None => "has no end".to_owned(),
        };
        line("lease", left);
    }
    if let Some(token) = found.last_token {
        line("fencing token", token.get().to_string());
    }
    if let Some(free) = lock.free_permits {
        line("permits free", free.to_string());
    }
    text.push_str(&holders(lock));
    text.push_str(&waiters(lock));
    text.push_str(&queue(lock));
    text
}

fn holders(lock: &SurveyedLock) -> String {
    if lock.holders.is_empty() {
        return String::new();
    }
    let rows = lock.holders.iter().map(|holder| {
        [
            harmless(&holder.to_string()),
            holder.count.to_string(),
            time_or_dash(holder.held_for),
            time_or_dash(holder.remaining),
            harmless_or_dash(holder.site.as_deref()),
            harmless_or_dash(holder.policy.as_deref()),
        ]
    });
    let header = ["HOLDER", "COUNT", "HELD FOR", "LEASE LEFT", "ACQUIRED AT", "POLICY"];
    format!("\n{}", table(header, &[1, 2, 3], rows))
}

fn waiters(lock: &SurveyedLock) -> String {
    if lock.waiters.is_empty() {
        return String::new();
    }
    let rows = lock.waiters.iter().map(|waiter| {
        [
            harmless(&waiter.client.to_string()),
            waiter.kind.to_string(),
            time(waiter.waited_for),
            waiter.place.map_or_else(
                || "asks the store".to_owned(),
                |place| format!("behind {place} here"),
            ),
            harmless_or_dash(waiter.site.as_deref()),
        ]
    });
    format!("\n{}", table(["WAITER", "FOR", "WAITED", "PLACE", "WAITS AT"], &[2], rows))
}

fn queue(lock: &SurveyedLock) -> String {
    if lock.queue.is_empty() {
        return String::new();
    }
    let rows = lock.queue.iter().enumerate();
    let rows = rows.map(|(at, place)| [(at + 1).to_string(), harmless(&place.to_string())]);
    let mut text = format!("\n{}", table(["PLACE", "IN THE QUEUE"], &[0], rows));
    let more = lock.waiting_in_store.saturating_sub(lock.queue.len());
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text
}
