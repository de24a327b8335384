//! `lockctl schema`: the JSON schema of configuration files.

use crate::answer::Answer;
use crate::failure::Failure;

/// What `LockConfig` and the layers read. The tests compare it with both.
const SCHEMA: &str = include_str!("../lock.schema.json");

pub(super) fn schema() -> Result<Answer, Failure> {
    let json = serde_json::from_str(SCHEMA);
    let json =
        json.map_err(|error| Failure::refused(format!("the schema cannot be read: {error}")))?;
    Ok(Answer::new(SCHEMA.to_owned(), json))
}
