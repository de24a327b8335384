//! Command-line programs without async in their own code.

use std::fs;

use crate::prelude::*;

fn worker(server: &RedisServer, args: &[&str]) -> Worker {
    let url = server.url();
    let args: Vec<_> = [url.as_str()].into_iter().chain(args.iter().copied()).collect();
    Worker::spawn(env!("CARGO_BIN_EXE_blocking_worker"), &args, &[])
}

#[test]
fn processes_take_turns() {
    let tools = Tools::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counter");
    fs::write(&file, "0").unwrap();
    let path = file.to_str().unwrap();
    let mut workers: Vec<_> = (0..3).map(|_| worker(&tools.server, &[path, "40"])).collect();
    for worker in &mut workers {
        let status = tools.runtime.block_on(worker.wait(SOON));
        assert!(status.success(), "{status}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "120", "updates were lost");
    assert!(!tools.is_held("counter"));
}

/// A process that is stopped past its lease learns of the loss by its first check.
#[test]
fn a_stopped_process_learns_of_its_loss() {
    let tools = Tools::start();
    let mut stopped = worker(&tools.server, &["hold"]);
    assert_eq!(tools.runtime.block_on(stopped.next_line(SOON)), "held");
    assert!(tools.is_held("held"));
    stopped.sigstop();
    free_soon(&tools.client(), "held");
    stopped.sigcont();
    assert_eq!(tools.runtime.block_on(stopped.next_line(SOON)), "lost");
    assert!(tools.runtime.block_on(stopped.wait(SOON)).success());
}
