//! Workers: talking, stopping, killing.

use super::*;

/// Answers each line, and says when its stdin is closed.
const ECHO: &str = r#"echo "ready $GREETING $1"
while read -r line; do echo "got $line"; done
echo closed; exit 3"#;

fn echo() -> Worker {
    Worker::spawn("/bin/sh", &["-c", ECHO, "sh", "there"], &[("GREETING", "hello")])
}

/// Whether there is such a process, if only one that its parent has not waited for.
fn runs(id: u32) -> bool {
    let mut kill = Command::new("/bin/sh");
    kill.args(["-c", "kill -0 \"$1\"", "sh"]).arg(id.to_string()).stderr(Stdio::null());
    kill.status().unwrap().success()
}

#[tokio::test]
async fn talks_line_by_line() {
    let mut worker = echo();
    assert_eq!(worker.next_line(BOUND).await, "ready hello there");
    worker.send("one");
    worker.send("two");
    assert_eq!(worker.next_line(BOUND).await, "got one");
    assert_eq!(worker.try_next_line(BOUND).await.as_deref(), Some("got two"));
    assert_eq!(worker.try_next_line(QUIET).await, None);
    assert_eq!(worker.wait(BOUND).await.code(), Some(3));
    assert_eq!(worker.next_line(BOUND).await, "closed");
    assert_eq!(worker.try_next_line(BOUND).await, None);
}

#[tokio::test]
async fn does_nothing_while_stopped() {
    let mut worker = echo();
    worker.next_line(BOUND).await;
    worker.sigstop();
    worker.send("one");
    assert_eq!(worker.try_next_line(QUIET).await, None);
    worker.sigcont();
    assert_eq!(worker.next_line(BOUND).await, "got one");
}

#[tokio::test]
async fn is_killed_running_or_stopped() {
    use std::os::unix::process::ExitStatusExt;

    for stopped in [false, true] {
        let mut worker = echo();
        worker.next_line(BOUND).await;
        if stopped {
            worker.sigstop();
        }
        worker.sigkill();
        assert_eq!(worker.wait(BOUND).await.signal(), Some(9));
        assert_eq!(worker.try_next_line(BOUND).await, None);
    }
}

#[tokio::test]
async fn is_gone_when_dropped() {
    let mut worker = echo();
    worker.next_line(BOUND).await;
    let id = worker.id();
    assert!(runs(id));
    drop(worker);
    assert!(!runs(id), "not even unburied");
}

#[tokio::test]
#[should_panic(expected = "has not written a line within")]
async fn a_missing_line_is_reported() {
    let mut worker = echo();
    worker.next_line(BOUND).await;
    worker.next_line(QUIET).await;
}

#[tokio::test]
#[should_panic(expected = "has ended instead of writing a line")]
async fn an_end_is_reported() {
    Worker::spawn("/bin/true", &[], &[]).next_line(BOUND).await;
}

#[test]
#[should_panic(expected = "cannot start worker /no/such/worker")]
fn a_missing_worker_is_reported() {
    Worker::spawn("/no/such/worker", &[], &[]);
}
