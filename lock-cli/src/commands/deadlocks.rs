//! `lockctl deadlocks`: holds that wait for each other.

use lock_runtime::LockClient;
use serde_json::json;

use super::notes;
use crate::answer::Answer;
use crate::args::Args;
use crate::failure::{FINE, Failure, NO};
use crate::text::{count, harmless};

/// A cycle may lead through any lock.
const LIMIT: usize = 1_000_000;

pub(super) async fn deadlocks(client: &LockClient, args: &Args) -> Result<Answer, Failure> {
    // Only clients know what waits inside of what.
    let survey = client.survey().clients_only().limit(LIMIT).within(args.store.within).await?;
    let found = survey.deadlocks();
    let mut text = match found.len() {
        0 if survey.is_complete => "no deadlock\n".to_owned(),
        0 => "no deadlock among the clients that answered\n".to_owned(),
        number => format!("{}\n", count(number, "deadlock")),
    };
    for deadlock in found {
        text.push('\n');
        for edge in &deadlock.edges {
            text.push_str(&format!("  {}\n", harmless(&edge.to_string())));
        }
    }
    let json = json!({
        "deadlocks": found,
        "missing": survey.missing,
        "is_complete": survey.is_complete,
    });
    let code = if found.is_empty() { FINE } else { NO };
    Ok(Answer::new(text, json).with_notes(notes(&survey, args)).with_code(code))
}
