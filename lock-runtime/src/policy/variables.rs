//! Environment variables that nothing may read: a misspelt name makes a new policy, which no code uses.

use figment::value::{Dict, Tag, Value};
use figment::{Figment, Metadata};
use lock_syntax::nearest;

use super::error::{ConfigError, ConfigProblem, join, shown};

/// Warns about a policy or base all of whose values come from variables, beside others: its name may be misspelt. It may
/// also be one of a file, of which variables override each value: a figment does not keep what was overridden.
///
/// Where variables set all policies, no name is known to be right.
///
/// # Errors
///
/// [`ConfigError`] with the variables that nothing reads.
pub(super) fn check(figment: &Figment) -> Result<(), ConfigError> {
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
            let near = nearest(name, known.iter().map(|(name, _)| name.as_str()));
            let near = near.map(|near| format!("; did you mean {:?}?", shown(near)));
            tracing::warn!(
                "all values of {path} come from environment variables; if the name is misspelt, nothing uses it{}",
                near.unwrap_or_default()
            );
        }
    }
    ConfigError::of(unsplit(figment))
}

/// Returns the problems of variables such as `MYAPP_LOCK_URL`, which nothing would read: two underscores go one table
/// down.
fn unsplit(figment: &Figment) -> Vec<ConfigProblem> {
    const FIELDS: &str = "url cluster sentinel quorum restart_guard tls store_patience command_timeout \
                          namespace token_ttl defaults base policies routes";
    let Ok(all) = figment.extract::<Dict>() else { return Vec::new() };
    let of_locks = all.iter().filter_map(|(name, value)| {
        let rest = name.strip_prefix("lock_")?;
        // Of the tables below tables, those whose names no program is likely to use for something else: `…_LOCK_BASE_DIR`.
        let is_of = |field: &&str| match rest.strip_prefix(*field) {
            Some(more) => {
                more.is_empty() || more.starts_with('_') && ["defaults", "policies"].contains(field)
            }
            None => false,
        };
        let field = FIELDS.split(' ').find(is_of)?;
        figment.get_metadata(value.tag()).filter(|data| is_variables(data))?;
        let message = format!(
            "is no table of locks; write two underscores for each step down, as in …LOCK__{}",
            field.to_ascii_uppercase()
        );
        Some(ConfigProblem::new(join("", name), message))
    });
    of_locks.collect()
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
