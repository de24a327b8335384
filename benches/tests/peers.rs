//! The comparison with other libraries, as a program: what it measures, and what it says of a peer that is not there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the comparison with short turns. Returns its report and its file.
fn compare(target: &Path, args: &[&str], path: Option<&Path>) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-benches"));
    command.args(["--peers", "--rounds", "1", "--seconds", "0.2"]).args(args);
    command.env("CARGO_TARGET_DIR", target);
    if let Some(first) = path {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let all = [first.to_owned()].into_iter().chain(std::env::split_paths(&paths));
        command.env("PATH", std::env::join_paths(all).unwrap());
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let folder = target.join("bench");
    let file = fs::read_to_string(folder.join("peers.json")).unwrap();
    let report = fs::read_to_string(folder.join("peers.md")).unwrap();
    (report, serde_json::from_str(&file).unwrap())
}

/// The sample of a figure.
fn sample(file: &Value, contender: &str, name: &str) -> Option<f64> {
    let records = file["records"].as_array().unwrap();
    let found = records.iter().find(|it| it["contender"] == contender && it["name"] == name)?;
    found["samples"][0].as_f64()
}

#[test]
fn processes_on_one_lock_are_compared() {
    let target = tempfile::tempdir().unwrap();
    let args = ["--only", "hot-2x4", "--peer", "rslock"];
    let (report, file) = compare(target.path(), &args, None);
    for contender in ["ours", "rslock"] {
        for name in ["a second", "p50", "hand-over, p50", "hand-over, round trips", "commands"] {
            assert!(sample(&file, contender, name) > Some(0.0), "{contender}, {name}: {file}");
        }
        assert_eq!(sample(&file, contender, "times two held the lock"), None, "{contender}");
    }
    assert!(sample(&file, "rslock", "ours is, ×") > Some(0.0), "{file}");
    assert!(report.contains("## hot-2x4"), "{report}");
    assert!(report.contains("\n- rslock 0.10"), "{report}");
}

#[test]
fn a_peer_that_cannot_be_built_is_named() {
    let target = tempfile::tempdir().unwrap();
    let tools = target.path().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("mvn"), "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(tools.join("mvn"), fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["--only", "own-2", "--peer", "Redisson"];
    let (report, file) = compare(target.path(), &args, Some(&tools));
    assert!(report.contains("Redisson is **missing**: its driver cannot be built"), "{report}");
    assert!(sample(&file, "ours", "a second") > Some(0.0), "{file}");
}
