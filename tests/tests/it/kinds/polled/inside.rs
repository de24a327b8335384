//! Inside one hold: re-entries that are left alone while they ask the store, or in line (S-6, S-27).

use crate::kinds::polled::awaits::polled;
use crate::kinds::polled::stress::{Pace, at_random};
use crate::kinds::polled::*;

/// The lease of every lock here that is renewed.
const LEASE: Duration = ms(30_000);

/// A second for the sleeper, and some round trips.
const BOUND: Duration = ms(1_200);

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

/// The guard of `acquiring`, which waits for the sleepers before it.
async fn goes_on(acquiring: Acquiring, what: &str) -> LockGuard {
    let start = Instant::now();
    let guard = timeout(BOUND * 8, acquiring).await.unwrap_or_else(|_| panic!("{what}: hangs"));
    let waited = start.elapsed();
    assert!(waited <= BOUND, "{what}: waited {waited:?}");
    guard.unwrap()
}

/// The lock is free for another process, although no task polls what this process has left.
async fn is_free_for(other: &LockClient, what: &str) -> LockGuard {
    let theirs = timeout(BOUND, other.rw_lock("k").write()).await;
    theirs.unwrap_or_else(|_| panic!("{what}: left held")).unwrap()
}

/// S-27, S-34: a read that is asked for inside of a write, and then not polled.
#[tokio::test(start_paused = true)]
async fn a_sleeping_read_inside_a_write_is_passed_over() {
    for joint in [false, true] {
        let mut polls = 1;
        loop {
            let what = format!("joint: {joint}, {polls} polls");
            let [client, other] = clients("write", LEASE);
            let outer = write_hold(&client, joint).await;
            let inside = async {
                let mut sleeper = read(&client);
                if polled(&mut sleeper, polls).await {
                    return false;
                }
                let next = goes_on(write(&client), &what).await;
                // It is polled while another is inside, and lines up again.
                let early = timeout(ms(200), &mut sleeper).await;
                assert!(early.is_err(), "{what}: a read beside a write");
                next.release().await.unwrap();
                let late = timeout(BOUND, sleeper).await;
                let late = late.unwrap_or_else(|_| panic!("{what}: lost its wait")).unwrap();
                let beside = client.rw_lock("k").try_write().await.unwrap();
                assert!(beside.is_none(), "{what}: a write beside a read");
                late.release().await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_try_beside_a_sleeping_read_succeeds_after_a_second() {
    let [client, _] = clients("write", LEASE);
    let outer = write_hold(&client, false).await;
    let inside = async {
        let mut sleeper = polled_once(read(&client)).await;
        let lock = client.rw_lock("k");
        sleep(ms(900)).await;
        assert!(lock.try_write().await.unwrap().is_none(), "a write beside a read");
        sleep(ms(200)).await;
        let next = lock.try_write().await.unwrap().expect("only a sleeper is in the way");
        assert!(timeout(ms(200), &mut sleeper).await.is_err(), "a read beside a write");
        next.release().await.unwrap();
        sleeper.await.unwrap().release().await.unwrap();
    };
    outer.run(inside).await.unwrap();
    outer.release().await.unwrap();
}

/// S-6, S-34: a re-entry that has the lease made longer first, and is then not polled.
#[tokio::test(start_paused = true)]
async fn a_sleeping_re_entry_that_extends_is_passed_over() {
    // Whether it lines up before it extends.
    for lines_up in [false, true] {
        let what = format!("lines up: {lines_up}");
        let [client, other] = clients("mutex", LEASE);
        let fixed = |lease| {
            let options = fixed(secs(lease));
            Box::pin(client.mutex("k").with(options).lock()) as Acquiring
        };
        let outer = fixed(10).await.unwrap();
        let inside = async {
            let first = fixed(1).await.unwrap();
            let mut sleeper = fixed(20);
            if lines_up {
                assert!(!polled(&mut sleeper, 1).await);
            }
            first.release().await.unwrap();
            assert!(!polled(&mut sleeper, 1).await, "{what}: it did not extend");
            let next = goes_on(fixed(1), &what).await;
            let early = timeout(ms(200), &mut sleeper).await;
            assert!(early.is_err(), "{what}: two are inside");
            next.release().await.unwrap();
            let late = sleeper.await.unwrap();
            assert!(late.remaining() > secs(15), "{:?}", late.remaining());
        };
        outer.run(inside).await.unwrap();
        outer.release().await.unwrap();
        let theirs = timeout(BOUND, other.mutex("k").lock()).await.expect("left held");
        theirs.unwrap().release().await.unwrap();
    }
}

/// S-34: however many in line are not polled, the next goes on after a second, also behind one inside.
#[tokio::test(start_paused = true)]
async fn many_sleepers_in_line_cost_a_second_in_all() {
    for behind_a_read in [false, true] {
        let what = format!("behind a sleeping read: {behind_a_read}");
        let [client, _] = clients("write", LEASE);
        let outer = write_hold(&client, false).await;
        let inside = async {
            let mut first = Some(write(&client).await.unwrap());
            let mut sleepers = Vec::new();
            if behind_a_read {
                release_all(first.take()).await;
                sleepers.push(polled_once(read(&client)).await);
            }
            for _ in 0..4 {
                sleepers.push(polled_once(write(&client)).await);
            }
            if let Some(first) = first {
                let mut last = write(&client);
                assert!(timeout(secs(3), &mut last).await.is_err(), "{what}: two are inside");
                first.release().await.unwrap();
                goes_on(last, &what).await.release().await.unwrap();
            }
            goes_on(write(&client), &what).await.release().await.unwrap();
            for sleeper in sleepers {
                let late = timeout(BOUND, sleeper).await;
                let late = late.unwrap_or_else(|_| panic!("{what}: a sleeper hangs"));
                late.unwrap().release().await.unwrap();
            }
        };
        outer.run(inside).await.unwrap();
    }
}

/// S-34: a waiter whose turn has not come keeps its place, though it is not polled, when a sleeper that it has
/// nothing to do with is passed over.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_turn_has_not_come_keeps_its_place() {
    let [client, _] = clients("write", LEASE);
    let outer = write_hold(&client, true).await;
    let another = || Box::pin(client.mutex("another").lock()) as Acquiring;
    let order = RefCell::new(Vec::new());
    let inside = async {
        let first = another().await.unwrap();
        let sleeper = polled_once(another()).await;
        let behind = async {
            let guard = another().await.unwrap();
            order.borrow_mut().push("behind");
            guard.release().await.unwrap();
        };
        let beside = async {
            let _read = polled_once(read(&client)).await;
            goes_on(write(&client), "beside a sleeping read").await.release().await.unwrap();
            let mut sleeper = polled_once(sleeper).await;
            first.release().await.unwrap();
            let guard = (&mut sleeper).await.unwrap();
            order.borrow_mut().push("sleeper");
            guard.release().await.unwrap();
        };
        tokio::join!(behind, beside);
    };
    outer.run(inside).await.unwrap();
    assert_eq!(*order.borrow(), ["sleeper", "behind"]);
}

/// S-6, S-17, S-34: whatever sleeps, gives up, and for however long, a write inside of a write is alone, and all
/// get inside in the end.
#[tokio::test(start_paused = true)]
async fn random_sleepers_inside_a_write_exclude_each_other_and_all_get_on() {
    for (joint, seed) in [false, true].into_iter().flat_map(|it| (0..12).map(move |n| (it, n))) {
        let what = format!("joint: {joint}, seed {seed}");
        let [client, other] = clients("write", LEASE);
        let outer = write_hold(&client, joint).await;
        let pace = Pace { tasks: 6, gives_up: 200, sleeps: 6, inside: 800 };
        let start = |_, writes| (if writes { write(&client) } else { read(&client) }, writes);
        outer.run(at_random((seed, &what), pace, start, |_| ())).await.unwrap();
        outer.release().await.unwrap();
        is_free_for(&other, &what).await.release().await.unwrap();
        let report = client.shutdown(secs(5)).await;
        assert!(report.is_clean(), "{what}: {report:?}");
    }
}
