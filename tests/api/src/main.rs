//! Compares the public API of a crate with the one on record: `cargo xtask api`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use public_api::{Builder, Error, PublicApi};

/// The crates whose types may be in the public API of each of ours: a new major version of one is a new major version here.
const OTHERS: [(&str, &[&str]); 5] = [
    ("lock_macros", &[]),
    (
        "lock_runtime",
        // Each but the last two is for a feature with its name: types that can be in a key, and configuration.
        &["chrono", "figment", "jiff", "time", "uuid", "serde_core", "pin_project_lite"],
    ),
    (
        "lock_tower",
        &[
            "axum_core",
            "bytes",
            "http",
            "http_body",
            "lock_runtime",
            "pin_project_lite",
            "tokio",
            "tonic",
            "tower_layer",
            "tower_service",
        ],
    ),
    ("lock_sqlx", &["lock_runtime", "sqlx_core"]),
    ("lock_console", &["axum", "lock_runtime"]),
];

const STANDARD: [&str; 3] = ["alloc", "core", "std"];

/// Takes the JSON that rustdoc wrote of a crate and the file on record. Panics with the difference, or, with
/// `UPDATE_SNAPSHOTS=yes` in its environment, writes the file.
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(json), Some(on_record), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: lock-api-check RUSTDOC_JSON FILE_ON_RECORD");
        return ExitCode::FAILURE;
    };
    let name = Path::new(&json).file_stem().unwrap_or_default().to_string_lossy();
    let checked = public_api(&json).map_err(|error| format!("cannot read {json}: {error}"));
    let checked = checked.and_then(|api| {
        api.assert_eq_or_update(on_record);
        check_others(&name, &api)
    });
    match checked {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("lock-api-check: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What a user can name and call. `Send`, `Unpin` and the like count: losing one breaks users.
fn public_api(json: &str) -> Result<PublicApi, Error> {
    Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_derived_impls(true).build()
}

fn check_others(name: &str, api: &PublicApi) -> Result<(), String> {
    let found: BTreeSet<String> = api.items().flat_map(|item| crates(&item.to_string())).collect();
    let on_record =
        OTHERS.iter().find(|(one, _)| *one == name).map_or(&[][..], |(_, others)| others);
    let of_ours = |one: &str| one == name || STANDARD.contains(&one);
    let found: BTreeSet<&str> =
        found.iter().map(String::as_str).filter(|one| !of_ours(one)).collect();
    let on_record: BTreeSet<&str> = on_record.iter().copied().collect();
    if found == on_record {
        return Ok(());
    }
    Err(format!(
        "the public API of {name} has types of {found:?}, on record are {on_record:?}: use types of ours, or change the \
         list in lock-api-check"
    ))
}

/// The first names of the paths in the text, without primitive types: `core` of `core::fmt::Debug`.
fn crates(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let paths = text.split(|c| !is_part(c)).filter(|path| !path.starts_with(':'));
    let first = paths.filter_map(|path| path.split_once("::")).map(|(first, _)| first);
    let is_crate =
        |first: &&str| first.starts_with(|c: char| c.is_ascii_lowercase()) && !is_primitive(first);
    first.filter(is_crate).map(str::to_owned).collect()
}

fn is_primitive(name: &str) -> bool {
    let number = name.strip_prefix(['i', 'u', 'f']);
    let is_number = number.is_some_and(|bits| bits == "size" || bits.parse::<u8>().is_ok());
    is_number || ["bool", "char", "str"].contains(&name)
}
