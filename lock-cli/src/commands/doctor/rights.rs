//! The rights of the user, each tried by a command that changes nothing.

use lock_runtime::LockClient;
use lock_runtime::admin::{MissingRight, ServerReport};

use super::{Check, Verdict};
use crate::failure::{Failure, with_causes};

const ADVICE: &str = "Grant what is missing with `ACL SETUSER`, as docs/operations.md says under \"The user's rights\", and run \
                      `lockctl doctor` again.";

pub(super) async fn checks(client: &LockClient) -> Result<Vec<Check>, Failure> {
    let servers = client.admin().missing_rights().await?;
    Ok(servers.iter().flat_map(of_server).collect())
}

fn of_server(server: &ServerReport<Vec<MissingRight>>) -> Vec<Check> {
    let check = |verdict, found, advice| Check {
        server: server.address.clone(),
        check: "rights",
        verdict,
        found,
        advice,
    };
    let missing = |missing: &MissingRight| {
        let verdict = if missing.is_optional { Verdict::Warning } else { Verdict::Problem };
        let found = format!("`{}` is missing, needed for {}", missing.right, missing.needed_for);
        check(verdict, found, ADVICE)
    };
    match &server.answer {
        Ok(none) if none.is_empty() => vec![check(Verdict::Ok, "none is missing".to_owned(), "")],
        Ok(all) => all.iter().map(missing).collect(),
        Err(error) => vec![check(Verdict::Problem, with_causes(error), "")],
    }
}
