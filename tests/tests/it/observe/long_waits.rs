//! S-36: a wait of ten seconds is logged, once, with what this process knows of the holder.

use lock_runtime::scope;
use tracing::Level;

use crate::observe::scenario::*;

const HERE: &str = "tests/tests/it/observe/long_waits.rs:";
const LONG: Duration = secs(11);

/// A client, and what is logged from now on.
fn in_memory() -> (Log, LockClient) {
    (Log::start(), builder().in_memory().unwrap())
}

/// So many lines about long waits.
fn lines(log: &Log, count: usize) -> Vec<String> {
    let lines = log.lines_with("has waited 10s");
    assert_eq!(lines.len(), count, "{}", log.text());
    lines
}

/// The one line about a long wait.
fn told(log: &Log) -> String {
    let line = lines(log, 1).remove(0);
    assert!(line.contains(" WARN "), "{line}");
    // What stands before is the span's.
    let line = line.split_once("has waited 10s").unwrap().1.to_owned();
    assert!(line.contains("lock.name=\"a"), "{line}");
    let site = line.split_once("lock.site=").map(|(_, site)| site);
    assert!(site.is_some_and(|site| site.contains(HERE)), "no site of this file: {line}");
    line
}

async fn waits_in_vain(acquire: impl Future, how_long: Duration) {
    assert!(timeout(how_long, acquire).await.is_err(), "no task has it");
}

/// The mistakes of newcomers hang; the log says which it is. Where no subscriber wants spans, a task in the queue waits in
/// another future.
#[tokio::test(start_paused = true)]
async fn a_second_lock_beside_a_plain_guard() {
    for level in [Level::TRACE, Level::WARN] {
        let (log, client) = (Log::start_at(level), builder().in_memory().unwrap());
        let _guard = client.mutex("a").lock().await.unwrap();
        let lock = client.policy_lock("checkout", ["a"]).wait(Wait::Forever);
        waits_in_vain(lock.lock(), secs(60)).await;
        let line = told(&log);
        for part in ["lock.policy=\"checkout\"", "this process", "plain guard", "scope::inherit"] {
            assert!(line.contains(part), "no {part:?}: {line}");
        }
        // Where the holder took it, too.
        assert_eq!(line.matches(HERE).count(), 2, "{line}");
    }
}

/// It is logged once, although the task waits on in the store.
#[tokio::test(start_paused = true)]
async fn a_wait_in_the_queue_and_then_in_the_store() {
    let log = Log::start_at(Level::WARN);
    let Pair { client, other } = memory();
    let _held = other.mutex("a").lock().await.unwrap();
    let contender = lock_tests::spawn(client.mutex("a").lock());
    tokio::task::yield_now().await;
    let waiter = lock_tests::spawn(client.mutex("a").wait(Wait::Forever).lock());
    sleep(LONG).await;
    lines(&log, 2);
    contender.abort();
    sleep(LONG * 2).await;
    assert!(!waiter.is_finished());
    lines(&log, 2);
}

/// In a spawned task, and beside another call inside of the hold.
#[tokio::test(start_paused = true)]
async fn a_nested_lock_that_hangs() {
    let (log, client) = in_memory();
    let lock = client.mutex("a");
    let guard = lock.lock().await.unwrap();
    guard.run(waits_in_vain(lock_tests::spawn(lock.lock()), LONG)).await.unwrap();
    assert!(told(&log).contains("scope::inherit"));
    let log = Log::start();
    let body = async {
        let _first = lock.lock().await.unwrap();
        waits_in_vain(lock_tests::spawn(scope::inherit(lock.clone().lock())), LONG).await;
    };
    let _ = guard.run(async { timeout(LONG * 2, body).await }).await;
    assert!(told(&log).contains("this process"));
}

#[tokio::test(start_paused = true)]
async fn two_locks_in_opposite_orders() {
    let (log, client) = in_memory();
    let both = async |first: &str, second: &str| {
        let _first = client.mutex(first).lock().await.unwrap();
        sleep(ms(10)).await;
        let _second = client.mutex(second).lock().await.unwrap();
    };
    waits_in_vain(join_all([both("a", "a2"), both("a2", "a")]), LONG).await;
    let lines = lines(&log, 2);
    assert!(lines.iter().all(|line| line.contains("this process")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("lock.name=\"a2\"")), "{lines:#?}");
}

/// Several locks of other kinds, one of which this process holds by itself or together with others.
#[tokio::test(start_paused = true)]
async fn several_locks_of_this_process() {
    let [one, two, three]: [_; 3] = std::array::from_fn(|_| LockClient::in_memory());
    let together =
        |other: &LockClient| MultiLock::of([one.mutex("a").into(), other.fair_mutex("b").into()]);
    for holder in 0..3 {
        let log = Log::start();
        let held = match holder {
            0 => one.mutex("a").lock().await,
            1 => two.fair_mutex("b").lock().await,
            _ => together(&three).lock().await,
        };
        waits_in_vain(together(&two).lock(), LONG).await;
        let line = told(&log);
        assert!(line.contains("lock.holder=this process"), "{holder}: {line}");
        held.unwrap().release().await.unwrap();
    }
}

/// Every kind, held by another client: the log says what is left of the holder's lease. A task in line behind a local one
/// that asks the store knows what that was told.
#[tokio::test(start_paused = true)]
async fn a_lock_of_another_process() {
    use LockKind::{Fair, Mutex, Read, Semaphore, Write};
    let lease = fixed(secs(40));
    for kind in [Mutex, Fair, Read, Write, Semaphore(1)] {
        let log = Log::start();
        let Pair { client, other } = memory();
        let held_as = if kind == Read { Write } else { kind };
        let _held = other.any_lock(held_as, ["a"]).with(lease.clone()).lock().await.unwrap();
        waits_in_vain(client.any_lock(kind, ["a"]).lock(), LONG).await;
        let line = told(&log);
        assert!(line.contains("lock.holder=another client"), "{kind:?}: {line}");
        // A quarter of the lease is over.
        let left = ["has 30.0s left", "has 29.9s left"].iter().any(|left| line.contains(left));
        assert!(left, "{kind:?}: {line}");
        let _held = other.mutex("b").lock().await.unwrap();
        waits_in_vain(client.any_lock(Mutex, ["b", "c"]).lock(), secs(9)).await;
        told(&log);
    }
    let log = Log::start();
    let Pair { client, other } = memory();
    let _held = other.mutex("a").with(lease).lock().await.unwrap();
    waits_in_vain(join_all([(); 3].map(|()| client.mutex("a").lock())), LONG).await;
    let lines = lines(&log, 3);
    assert!(lines.iter().all(|line| line.contains("another client")), "{lines:#?}");
}

#[distributed_lock(key = "a:{id}", client = client)]
async fn annotated(client: &LockClient, id: u32) -> Result<(), LockError> {
    Ok(())
}

/// A latch has no holder, and an annotated function is named as such.
#[tokio::test(start_paused = true)]
async fn a_latch_and_an_annotated_function() {
    let (log, client) = in_memory();
    let latch = client.latch("a");
    assert!(latch.try_set_count(2).await.unwrap());
    waits_in_vain(latch.reached(), LONG).await;
    let line = told(&log);
    assert!(line.contains("counted down") && !line.contains("process"), "{line}");
    let (log, client) = in_memory();
    let _held = client.mutex("a:1").lock().await.unwrap();
    waits_in_vain(annotated(&client, 1), LONG).await;
    let line = told(&log);
    assert!(line.contains(&format!("long_waits::annotated ({HERE}")), "{line}");
}
