//! Many calls that want several locks of any kind at once share what serves them (S-14, S-18, S-28).

use tokio::runtime::Handle;

use crate::prelude::*;
use crate::support::kinds::two_in_memory;

const CALLS: usize = 1000;

/// The kinds of which several are taken one after the other.
const KINDS: [LockKind; 4] =
    [LockKind::Fair, LockKind::Read, LockKind::Write, LockKind::Semaphore(1)];

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

fn both(client: &LockClient, kind: LockKind) -> AnyLock {
    client.any_lock(kind, ["a", "b"])
}

/// Keeps all of these kinds from being taken: readers by a writer, the others by their like.
fn rival(kind: LockKind) -> LockKind {
    if kind == LockKind::Read { LockKind::Write } else { kind }
}

/// S-14: a thousand calls, each with a lock of its own, make no task of their own and are served in order. By real time, the
/// first of them would be passed over on a machine that polls a thousand in more than a second.
#[tokio::test(start_paused = true)]
async fn a_thousand_calls_make_no_tasks() {
    for kind in KINDS {
        let (client, other) = two_in_memory();
        let held = both(&other, rival(kind)).lock().await.unwrap();
        drop(both(&client, kind).try_lock().await);
        let before = alive_tasks();
        let (most, order) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let call = async |number: usize| {
            let guard = both(&client, kind).lock().await.unwrap();
            most.fetch_max(alive_tasks(), Ordering::Relaxed);
            order.lock().unwrap().push(number);
            guard.release().await.unwrap();
        };
        let release = async {
            // All of them have been polled before this.
            most.fetch_max(alive_tasks(), Ordering::Relaxed);
            held.release().await.unwrap();
        };
        let all = async { tokio::join!(join_all((0..CALLS).map(call)), release) };
        timeout(SOON, all).await.unwrap_or_else(|_| panic!("{kind:?}: a task starves"));
        let more = most.into_inner().saturating_sub(before);
        assert!(more <= 8, "{kind:?}: {more} more tasks for {CALLS} calls");
        let order = order.into_inner().unwrap();
        assert_eq!(order.len(), CALLS);
        if kind != LockKind::Read {
            assert!(order.is_sorted(), "{kind:?}: not in order: {order:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_bounded() {
    for kind in KINDS {
        let (client, other) = two_in_memory();
        let held = both(&other, rival(kind)).lock().await.unwrap();
        let options = LockOptions::new().max_waiters(10).wait(Wait::UpTo(SOON));
        let call = async |_| both(&client, kind).with(options.clone()).lock().await.map(drop);
        let release = async {
            sleep(ms(100)).await;
            held.release().await.unwrap();
        };
        let (calls, ()) = tokio::join!(join_all((0..100).map(call)), release);
        let is_refused = |call: &&Result<(), LockError>| {
            matches!(call, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. }))
        };
        assert_eq!(calls.iter().filter(is_refused).count(), 89, "{kind:?}: {calls:?}");
        assert_eq!(calls.iter().filter(|call| call.is_ok()).count(), 11, "{kind:?}: {calls:?}");
    }
}

/// S-18: and of one client, together with the waiters of its other locks.
#[tokio::test(start_paused = true)]
async fn a_crowd_counts_for_its_client() {
    let store = MemoryStore::new();
    let client = LockClient::builder().max_waiters(5).store(store.peer()).unwrap();
    let other = LockClient::builder().store(store.peer()).unwrap();
    let held = both(&other, LockKind::Write).lock().await.unwrap();
    let single = other.mutex("m").lock().await.unwrap();
    let waiting: Vec<_> = (0..4).map(|_| lock_tests::spawn(client.mutex("m").lock())).collect();
    let joint: Vec<_> =
        (0..3).map(|_| lock_tests::spawn(both(&client, LockKind::Write).lock())).collect();
    sleep(ms(50)).await;
    // Three in line behind the one that asks for the mutex, two behind the one that asks for both.
    let refused = timeout(SOON, both(&client, LockKind::Write).lock()).await.expect("admitted");
    assert!(matches!(refused, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. })));
    held.release().await.unwrap();
    single.release().await.unwrap();
    for waiter in waiting.into_iter().chain(joint) {
        timeout(SOON, waiter).await.unwrap().unwrap().unwrap().release().await.unwrap();
    }
}

/// S-30: each call has as many permits as it asks for.
#[tokio::test(start_paused = true)]
async fn each_call_has_its_permits() {
    let client = LockClient::in_memory();
    let (semaphore, rw) = (client.semaphore("s", 3), client.rw_lock("r"));
    let tried = async |permits| {
        let parts = [MultiMember::read(&rw), MultiMember::permits(&semaphore, permits)];
        MultiLock::of(parts).try_lock().await.unwrap()
    };
    let (two, one) = (tried(2).await, tried(1).await);
    assert!(two.is_some() && one.is_some());
    assert!(tried(1).await.is_none(), "a fourth permit of three");
    drop(one);
    soon!("one permit is free", {
        assert!(tried(2).await.is_none(), "two permits of one");
        tried(1).await.is_some()
    });
    drop(two);
    soon!("all are free", tried(3).await.is_some());
}

/// S-28: the same over two clients, named in both orders; and the end of each client ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_over_two_clients_makes_no_tasks() {
    let clients = [LockClient::in_memory(), LockClient::in_memory()];
    let of = |from: usize| {
        let (first, second) = (&clients[from], &clients[1 - from]);
        MultiLock::of([first.fair_mutex("x").into(), second.mutex("y").into()])
    };
    drop(of(0).lock().await.unwrap());
    drop(of(1).lock().await.unwrap());
    let before = alive_tasks();
    let inside = Arc::new(AtomicUsize::new(0));
    let call = async |number: usize| {
        let guard = of(number % 2).lock().await.unwrap();
        inside.fetch_add(1, Ordering::Relaxed);
        assert!(alive_tasks() <= before + 8, "{} tasks", alive_tasks());
        guard.release().await.unwrap();
    };
    timeout(SOON, join_all((0..100).map(call))).await.expect("a task starves");
    assert!(clients[1].shutdown(SOON).await.is_clean());
    assert!(matches!(of(0).lock().await, Err(LockError::Closed)));
    clients[0].fair_mutex("x").lock().await.unwrap().release().await.unwrap();
}

/// S-20: a shutdown beside the first call of several locks reports as clean only what holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_clean_shutdown_leaves_no_joint_lock() {
    for round in 0..1_000 {
        let (a, b) = (LockClient::in_memory(), LockClient::in_memory());
        let take = |n: u32| {
            let members = [a.mutex(format!("a{n}")).into(), b.mutex(format!("b{n}")).into()];
            lock_tests::spawn(async move { MultiLock::of(members).try_lock().await })
        };
        let takers: Vec<_> = (0..4).map(take).collect();
        let closing = lock_tests::spawn(async move { b.shutdown(Duration::ZERO).await });
        let report = timeout(SOON, closing).await.expect("it hangs").unwrap();
        let mut held = Vec::new();
        for taker in takers {
            if let Ok(Some(guard)) = timeout(SOON, taker).await.expect("it hangs").unwrap() {
                held.push(guard);
            }
        }
        assert!(!report.is_clean() || held.is_empty(), "round {round}: {held:?}");
    }
}
