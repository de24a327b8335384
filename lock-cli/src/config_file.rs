//! A configuration file of a service: JSON by the end of its name, else TOML.

use std::error::Error;
use std::fs;
use std::path::Path;

use lock_runtime::policy::LockConfig;

use crate::failure::{Failure, with_causes};

pub(crate) fn is_json(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

pub(crate) fn text(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("the file {} cannot be read: {error}", file.display()))
    })
}

/// Reads the configuration in the text of the file.
///
/// # Errors
///
/// A sentence that begins with the file.
pub(crate) fn config(file: &Path, text: &str) -> Result<LockConfig, String> {
    if !is_json(file) {
        return LockConfig::from_toml(text).map_err(|error| invalid(file, &error));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let config = LockConfig::from_deserializer(&mut json).map_err(|error| invalid(file, &error))?;
    // What stands behind the end is an error for every service that reads the whole file.
    json.end().map_err(|error| invalid(file, &error))?;
    Ok(config)
}

/// The sentence for a file that a service would refuse.
pub(crate) fn invalid(file: &Path, error: &dyn Error) -> String {
    format!("{}: {}", file.display(), with_causes(error))
}
