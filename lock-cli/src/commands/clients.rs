//! `lockctl clients`: the processes.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::time::SystemTime;

use lock_runtime::LockClient;
use serde_json::json;

use super::{notes, survey};
use crate::answer::{Answer, table};
use crate::args::Args;
use crate::failure::Failure;
use crate::text::{harmless, time};

pub(super) async fn clients(client: &LockClient, args: &Args) -> Result<Answer, Failure> {
    let survey = survey(client, args).clients_only().await?;
    let rows = survey.clients.iter().map(|one| {
        let process = &one.client;
        let age = SystemTime::now().duration_since(process.started).unwrap_or_default();
        let more = if one.is_cut { "+" } else { "" };
        [
            harmless(&process.service),
            harmless(&process.host),
            process.pid.to_string(),
            harmless(&process.version),
            time(age),
            format!("{}{more}", one.holds),
            format!("{}{more}", one.waits),
            time(one.answered_in),
        ]
    });
    let header = ["SERVICE", "HOST", "PID", "VERSION", "AGE", "HOLDS", "WAITS", "ANSWERED IN"];
    let text = table(header, &[2, 4, 5, 6, 7], rows);
    let json = json!({ "clients": survey.clients, "missing": survey.missing });
    Ok(Answer::new(text, json).with_notes(notes(&survey, args)))
}
