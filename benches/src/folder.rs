//! Where results and builds go.

use std::path::{Path, PathBuf};

/// The folder that cargo builds in.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}
