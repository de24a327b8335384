//! Inside one hold: re-entries that are left alone while they ask the store, or in line (S-6, S-27). They keep their turn,
//! and those beside them wait for no longer than they want to (S-34).

use crate::kinds::polled::awaits::polled;
use crate::kinds::polled::stress::{Pace, at_random};
use crate::kinds::polled::*;

/// The lease of every lock here that is renewed.
const LEASE: Duration = ms(30_000);

/// Some round trips.
const BOUND: Duration = ms(200);

/// How long one waits beside a sleeper. A sleeper outside of a hold would be passed over in less.
const WAIT: Duration = ms(2_000);

/// A hold of the write side of `k`, alone or as one of two locks.
async fn write_hold(client: &LockClient, joint: bool) -> LockGuard {
    let lock = client.rw_lock("k");
    match joint {
        true => {
            let both = [MultiMember::write(&lock), client.mutex("another").into()];
            MultiLock::of(both).lock().await.unwrap()
        }
        false => lock.write().await.unwrap(),
    }
}

fn read(client: &LockClient) -> Acquiring {
    Box::pin(client.rw_lock("k").wait(Wait::Forever).read())
}

fn write(client: &LockClient) -> Acquiring {
    Box::pin(client.rw_lock("k").wait(Wait::Forever).write())
}

/// A write beside a sleeper gives up when its own wait is over, and a try at once.
async fn times_out(client: &LockClient, what: &str) {
    let start = Instant::now();
    let beside = client.rw_lock("k").wait(WAIT).write().await;
    assert!(matches!(beside, Err(LockError::Timeout { .. })), "{what}: {beside:?}");
    let waited = start.elapsed();
    assert!((WAIT..WAIT + BOUND).contains(&waited), "{what}: waited {waited:?}");
    let tried = client.rw_lock("k").try_write().await.unwrap();
    assert!(tried.is_none(), "{what}: a write beside a read");
}

/// The guard of `acquiring`, which waits for nobody any more.
async fn goes_on(acquiring: Acquiring, what: &str) -> LockGuard {
    let start = Instant::now();
    let guard = timeout(WAIT, acquiring).await.unwrap_or_else(|_| panic!("{what}: hangs"));
    let waited = start.elapsed();
    assert!(waited <= BOUND, "{what}: waited {waited:?}");
    guard.unwrap()
}

/// The lock is free for another process, although no task polls what this process has left.
async fn is_free_for(other: &LockClient, what: &str) -> LockGuard {
    let theirs = timeout(BOUND, other.rw_lock("k").write()).await;
    theirs.unwrap_or_else(|_| panic!("{what}: left held")).unwrap()
}

/// S-27, S-34: a read that is asked for inside of a write, and then not polled, wherever it was. Those beside it wait as long
/// as they want to, and go on once it is polled or dropped.
#[tokio::test(start_paused = true)]
async fn a_sleeping_read_inside_a_write_keeps_its_turn() {
    for (joint, is_dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut polls = 1;
        loop {
            let what = format!("joint: {joint}, dropped: {is_dropped}, {polls} polls");
            let [client, other] = clients("write", LEASE);
            let outer = write_hold(&client, joint).await;
            let inside = async {
                let mut sleeper = read(&client);
                if polled(&mut sleeper, polls).await {
                    return false;
                }
                times_out(&client, &what).await;
                if is_dropped {
                    drop(sleeper);
                } else {
                    let late = timeout(BOUND, sleeper).await;
                    let late = late.unwrap_or_else(|_| panic!("{what}: lost its wait")).unwrap();
                    let beside = client.rw_lock("k").try_write().await.unwrap();
                    assert!(beside.is_none(), "{what}: a write beside a read");
                    late.release().await.unwrap();
                }
                goes_on(write(&client), &what).await.release().await.unwrap();
                true
            };
            if !outer.run(inside).await.unwrap() {
                break;
            }
            outer.release().await.unwrap();
            is_free_for(&other, &what).await.release().await.unwrap();
            polls += 1;
        }
        assert!(polls > 1, "it had no await point");
    }
}

/// S-34: what a sleeping read was granted is not renewed, so that other processes wait for one lease at most; no longer than
/// until it is dropped.
#[tokio::test(start_paused = true)]
async fn the_grant_of_a_sleeping_read_ends() {
    for (joint, is_dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("joint: {joint}, dropped: {is_dropped}");
        let [client, other] = clients("write", LEASE);
        let outer = write_hold(&client, joint).await;
        let mut sleeper = read(&client);
        assert!(!outer.run(polled(&mut sleeper, 1)).await.unwrap());
        outer.release().await.unwrap();
        if is_dropped {
            drop(sleeper);
            is_free_for(&other, &what).await.release().await.unwrap();
        } else {
            let theirs = timeout(LEASE + BOUND, other.rw_lock("k").wait(Wait::Forever).write());
            let theirs = theirs.await.unwrap_or_else(|_| panic!("{what}: left held")).unwrap();
            // Outside of the hold it is a reader as any other.
            // Its grant has come too late. It waits on, as any reader outside of the hold, or gives up on a store that took so
            // long to answer.
            let late = timeout(ms(200), &mut sleeper).await;
            theirs.release().await.unwrap();
            match late {
                Ok(Err(LockError::Store(_))) => {}
                Ok(other) => panic!("{what}: a read beside a write: {other:?}"),
                Err(_) => {
                    let late = timeout(BOUND, sleeper).await;
                    late.unwrap_or_else(|_| panic!("{what}: no turn"))
                        .unwrap()
                        .release()
                        .await
                        .unwrap();
                }
            }
        }
        let report = client.shutdown(Duration::from_secs(5)).await;
        assert!(report.is_clean(), "{what}: {report:?}");
    }
}

/// S-6, S-34: a re-entry that has the lease made longer first, and is then not polled.
#[tokio::test(start_paused = true)]
async fn a_sleeping_re_entry_that_extends_keeps_its_turn() {
    // Whether it lines up before it extends.
    for (lines_up, is_dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("lines up: {lines_up}, dropped: {is_dropped}");
        let [client, other] = clients("mutex", LEASE);
        let fixed = |secs| {
            let options = fixed(Duration::from_secs(secs));
            Box::pin(client.mutex("k").with(options).lock()) as Acquiring
        };
        let outer = fixed(10).await.unwrap();
        let inside = async {
            let first = fixed(1).await.unwrap();
            let mut sleeper = fixed(20);
            if lines_up {
                assert!(!polled(&mut sleeper, 1).await);
                first.release().await.unwrap();
                assert!(!polled(&mut sleeper, 1).await, "{what}: it did not extend");
            } else {
                first.release().await.unwrap();
                assert!(!polled(&mut sleeper, 1).await, "{what}: it did not extend");
            }
            let beside = fixed(1);
            assert!(timeout(WAIT, beside).await.is_err(), "{what}: two are inside");
            if is_dropped {
                drop(sleeper);
            } else {
                let late = sleeper.await.unwrap();
                assert!(late.remaining() > Duration::from_secs(15), "{:?}", late.remaining());
                late.release().await.unwrap();
            }
            goes_on(fixed(1), &what).await.release().await.unwrap();
        };
        outer.run(inside).await.unwrap();
        outer.release().await.unwrap();
        let theirs = timeout(BOUND, other.mutex("k").lock()).await.expect("left held");
        theirs.unwrap().release().await.unwrap();
    }
}

/// S-34: however many in line are not polled, the one behind them waits as long as it wants to, and goes on once they are
/// dropped; also where they are inside of what the first in line of those around waits for.
#[tokio::test(start_paused = true)]
async fn many_sleepers_in_line_keep_their_turns() {
    for behind_a_read in [false, true] {
        let what = format!("behind a sleeping read: {behind_a_read}");
        let [client, _] = clients("write", LEASE);
        let outer = write_hold(&client, false).await;
        let inside = async {
            let around = write(&client).await.unwrap();
            let within = async {
                let first = write(&client).await.unwrap();
                let mut sleepers = Vec::new();
                if behind_a_read {
                    first.release().await.unwrap();
                    sleepers.push(polled_once(read(&client)).await);
                    sleepers.push(polled_once(write(&client)).await);
                } else {
                    sleepers.push(polled_once(write(&client)).await);
                    sleepers.push(polled_once(write(&client)).await);
                    first.release().await.unwrap();
                }
                let mut polled = write(&client);
                assert!(timeout(ms(100), &mut polled).await.is_err(), "{what}: it overtook");
                times_out(&client, &what).await;
                sleepers.pop();
                times_out(&client, &what).await;
                drop(sleepers);
                goes_on(polled, &what).await.release().await.unwrap();
            };
            let around = async {
                around.run(within).await.unwrap();
                around.release().await.unwrap();
            };
            let (outsider, ()) = tokio::join!(write(&client), around);
            outsider.unwrap().release().await.unwrap();
        };
        outer.run(inside).await.unwrap();
    }
}

/// S-6, S-17, S-34: whatever sleeps and for however long, a write inside of a write is alone, and all
/// get inside in the end.
#[tokio::test(start_paused = true)]
async fn random_sleepers_inside_a_write_exclude_each_other_and_all_get_on() {
    for joint in [false, true] {
        for seed in 0..12 {
            let what = format!("joint: {joint}, seed {seed}");
            let [client, other] = clients("write", LEASE);
            let outer = write_hold(&client, joint).await;
            let pace = Pace { tasks: 6, gives_up: 200, sleeps: 6, inside: 800 };
            let start = |_, writes| (if writes { write(&client) } else { read(&client) }, writes);
            outer.run(at_random((seed, &what), pace, start, |_| ())).await.unwrap();
            outer.release().await.unwrap();
            is_free_for(&other, &what).await.release().await.unwrap();
            let report = client.shutdown(Duration::from_secs(5)).await;
            assert!(report.is_clean(), "{what}: {report:?}");
        }
    }
}
