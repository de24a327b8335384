//! `lockctl doctor`: checks the servers, and what the user may do there.

mod permissions;
mod rights;
mod server;

use lock_runtime::LockClient;
use serde::Serialize;
use serde_json::json;

use crate::answer::{Answer, table};
use crate::failure::{FINE, Failure, NO};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// Locks work, and are less safe than they could be.
    Warning,
    /// Locks are in danger, or do not work.
    Problem,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    /// The server's address; empty for what concerns all servers.
    server: String,
    /// What is checked.
    check: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// Why it matters and what to do, a sentence each; empty if all is well.
    advice: &'static str,
}

pub(super) async fn doctor(client: &LockClient) -> Result<Answer, Failure> {
    let mut checks = Vec::new();
    for report in client.admin().servers().await? {
        checks.extend(server::checks(&report));
    }
    checks.extend(rights::checks(client).await?);
    checks.extend(permissions::checks(client).await);
    let is_bad = checks.iter().any(|check| check.verdict == Verdict::Problem);
    let answer = Answer::new(text(&checks), json!({ "checks": checks }));
    Ok(answer.with_code(if is_bad { NO } else { FINE }))
}

fn text(checks: &[Check]) -> String {
    let rows = checks.iter().map(|check| {
        let verdict = match check.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        };
        [verdict.to_owned(), check.server.clone(), check.check.to_owned(), check.found.clone()]
    });
    let mut text = table(["VERDICT", "SERVER", "CHECK", "FOUND"], &[], rows);
    let mut told = Vec::new();
    for check in checks.iter().filter(|check| check.verdict != Verdict::Ok) {
        if !check.advice.is_empty() && !told.contains(&check.advice) {
            told.push(check.advice);
            text.push_str(&format!("\n{}: {}\n", check.check, check.advice));
        }
    }
    text
}
