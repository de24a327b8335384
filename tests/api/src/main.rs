//! Compares the public API of a crate with the one on record: `cargo xtask api`.

use std::process::ExitCode;

use public_api::{Builder, Error};

/// Takes the JSON that rustdoc wrote of a crate and the file on record. Panics with the difference, or, with
/// `UPDATE_SNAPSHOTS=yes` in its environment, writes the file.
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(json), Some(on_record), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: lock-api-check RUSTDOC_JSON FILE_ON_RECORD");
        return ExitCode::FAILURE;
    };
    match public_api(&json) {
        Ok(api) => {
            api.assert_eq_or_update(on_record);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lock-api-check: cannot read {json}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What a user can name and call. `Send`, `Unpin` and the like count: losing one breaks users.
fn public_api(json: &str) -> Result<public_api::PublicApi, Error> {
    Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_derived_impls(true).build()
}
