//! `lockctl deadlocks`: holds that wait for each other.

use lock_runtime::LockClient;
use lock_runtime::admin::Deadlock;
use serde_json::json;

use super::{notes, survey};
use crate::answer::Answer;
use crate::args::Args;
use crate::failure::{FINE, Failure, NO};
use crate::text::{count, harmless};

/// As many holds as a client lists, and as many locks of the store.
const LIMIT: usize = 10_000;

pub(super) async fn deadlocks(client: &LockClient, args: &Args) -> Result<Answer, Failure> {
    // Only clients know what waits inside of what; the store shows the holds of those that have not answered.
    let survey = survey(client, args).limit(LIMIT).await?;
    let (found, possible) = (survey.deadlocks(), survey.possible_deadlocks());
    let mut text = match found.len() {
        0 if survey.is_complete => "no deadlock\n".to_owned(),
        0 if survey.missing > 0 || survey.unaccounted > 0 => {
            "no deadlock among the clients that answered\n".to_owned()
        }
        0 => "no deadlock in what was looked at\n".to_owned(),
        number => format!("{}\n", count(number, "deadlock")),
    };
    found.iter().for_each(|deadlock| push(&mut text, deadlock));
    if !possible.is_empty() {
        text.push_str(&format!("\n{}", count(possible.len(), "possible deadlock")));
        text.push_str(": these clients wait for each other, perhaps not the same tasks of them\n");
    }
    possible.iter().for_each(|deadlock| push(&mut text, deadlock));
    let json = json!({
        "deadlocks": found,
        "possible": possible,
        "missing": survey.missing,
        "unaccounted": survey.unaccounted,
        "is_complete": survey.is_complete,
    });
    // Who was not asked, and what was not looked at, may be part of one.
    let is_clear = found.is_empty() && possible.is_empty() && survey.is_complete;
    let code = if is_clear { FINE } else { NO };
    Ok(Answer::new(text, json).with_notes(notes(&survey, args)).with_code(code))
}

fn push(text: &mut String, deadlock: &Deadlock) {
    text.push('\n');
    for edge in &deadlock.edges {
        text.push_str(&format!("  {}\n", harmless(&edge.to_string())));
    }
}
