//! Command-line programs without async in their own code.

use std::fs;
use std::path::Path;

use lock_tests::history::{History, May, Recorder, Report, Rules};
use lock_tests::preload::Fork;

use crate::prelude::*;

fn worker(server: &RedisServer, history: &Path, args: &[&str], envs: &[(&str, &str)]) -> Worker {
    let url = server.url();
    let args = [&["blocking", &url, history.to_str().unwrap()], args].concat();
    Worker::spawn(env!("CARGO_BIN_EXE_worker"), &args, envs)
}

/// What the history amounts to; no rule may be violated.
fn checked(history: &Path) -> Report {
    let report = History::load(history).unwrap().check(&Rules::default());
    report.assert_clean();
    report
}

#[test]
fn processes_take_turns() {
    let tools = Tools::start();
    let (folder, history) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("counter");
    fs::write(&file, "0").unwrap();
    let args = [file.to_str().unwrap(), "40"];
    let start = |_| worker(&tools.server, history.path(), &args, &[]);
    let mut workers: Vec<_> = (0..3).map(start).collect();
    for worker in &mut workers {
        let status = tools.runtime.block_on(worker.wait(SOON));
        assert!(status.success(), "{status}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "120", "updates were lost");
    assert!(!tools.is_held("counter"));
    let report = checked(history.path());
    assert_eq!((report.claims, report.updates), (120, 120), "{report}");
}

/// A process that is stopped past its lease learns of the loss by its first check.
#[test]
fn a_stopped_process_learns_of_its_loss() {
    let tools = Tools::start();
    let history = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(history.path()).unwrap();
    let mut stopped = worker(&tools.server, history.path(), &["hold"], &[]);
    assert_eq!(tools.runtime.block_on(stopped.next_line(SOON)), "held");
    assert!(tools.is_held("held"));
    recorder.record_fault_of("stopped", May::Stop, stopped.id());
    stopped.sigstop();
    free_soon(&tools.client(), "held");
    stopped.sigcont();
    recorder.record_end_of_fault("stopped");
    assert_eq!(tools.runtime.block_on(stopped.next_line(SOON)), "lost");
    assert!(tools.runtime.block_on(stopped.wait(SOON)).success());
    let report = checked(history.path());
    assert_eq!((report.claims, report.losses), (1, 1), "{report}");
}

/// A fork would share the connections of its parent.
#[test]
fn a_fork_is_refused_the_client_of_its_parent() {
    let tools = Tools::start();
    let (history, fork) = (tempfile::tempdir().unwrap(), Fork::new());
    let envs = fork.envs();
    let envs: Vec<_> = envs.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut worker = worker(&tools.server, history.path(), &["fork"], &envs);
    let mut calls = 0;
    loop {
        let line = tools.runtime.block_on(worker.next_line(SOON));
        if line == "end" {
            break;
        }
        assert!(line.contains("this process is a fork"), "{line}");
        calls += 1;
    }
    assert_eq!(calls, 11);
    assert!(tools.is_held("held"), "the child has released its parent's lock");
    worker.send("");
    assert!(tools.runtime.block_on(worker.wait(SOON)).success());
    assert!(!tools.is_held("held"));
}
