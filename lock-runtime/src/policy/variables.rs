//! Policies that only environment variables set: a misspelt name makes a new policy, which no code uses.

use figment::value::{Tag, Value};
use figment::{Figment, Metadata};
use lock_syntax::nearest;

use super::error::{ConfigError, ConfigProblem, join, shown};

/// Refuses a policy or base that only variables set, if it is spelt nearly as one that a file has. Warns about others
/// beside policies of a file. Where variables set all policies, no name is known to be right.
pub(super) fn check(figment: &Figment) -> Result<(), ConfigError> {
    let mut problems = Vec::new();
    for table in ["lock.policies", "lock.base"] {
        let Ok(Value::Dict(_, entries)) = figment.find_value(table) else { continue };
        let is_of_variables = |value: &Value| {
            let mut tags = Vec::new();
            collect_tags(value, &mut tags);
            tags.into_iter().all(|tag| figment.get_metadata(tag).is_some_and(is_variables))
        };
        let (suspects, known): (Vec<_>, Vec<_>) =
            entries.iter().partition(|(_, value)| is_of_variables(value));
        for (name, _) in suspects.into_iter().filter(|_| !known.is_empty()) {
            let path = join(table, name);
            match nearest(name, known.iter().map(|(name, _)| name.as_str())) {
                Some(near) => {
                    let message = format!(
                        "is set by environment variables only; did you mean {:?}? If not, set a value of it \
                         in the file",
                        shown(near)
                    );
                    problems.push(ConfigProblem::new(path, message));
                }
                None => tracing::warn!(
                    "{path} is set by environment variables only; if it is misspelt, nothing uses it"
                ),
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(ConfigError::new(problems)) }
}

fn is_variables(data: &Metadata) -> bool {
    data.name.ends_with("environment variable(s)")
}

/// Collects the providers of the values in it; of an empty table, that of the table.
fn collect_tags(value: &Value, tags: &mut Vec<Tag>) {
    match value {
        Value::Dict(_, entries) if !entries.is_empty() => {
            entries.values().for_each(|value| collect_tags(value, tags));
        }
        other => tags.push(other.tag()),
    }
}
