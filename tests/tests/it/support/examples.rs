//! Where the programs of `examples/` are.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// The program of that example.
///
/// Panics when cargo cannot build the examples.
pub(crate) fn example(name: &str) -> PathBuf {
    FOLDER.join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

/// Where the examples are, built.
///
/// Cargo tells a test where its own package's binaries are, and says nothing of another package's
/// examples; `cargo test --workspace` has built them, `cargo test -p lock-tests` has not. So cargo is
/// asked: after `cargo xtask test` it finds nothing to do, because it chooses the same packages and features. The directory and
/// the profile are those of this test. `cargo xtask ci`, which has another compiler build them, says where they are.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(built) = env::var_os("BUILT_EXAMPLES") {
        return built.into();
    }
    let test = env::current_exe().unwrap();
    let built = test.parent().and_then(std::path::Path::parent).unwrap();
    let (target, profile) = (built.parent().unwrap(), built.file_name().unwrap());
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    // What cargo told this test would make build scripts run again, and all that depends on them.
    let told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    let mut build = Command::new(cargo);
    env::vars().filter(|(name, _)| told(name)).for_each(|(name, _)| {
        build.env_remove(name);
    });
    let status = build
        .args(["build", "--quiet", "--workspace", "--all-features", "--examples", "--target-dir"])
        .arg(target)
        .arg("--profile")
        .arg(if profile == "debug" { "dev".as_ref() } else { profile })
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "cargo cannot build the examples: {status}");
    built.join("examples")
});
