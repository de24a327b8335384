//! Many requests at once, which share scripts on their way to Redis.
//!
//! Where a test polls its futures by itself or in `join_all`, the first ones go out alone and all
//! others meet in the next scripts: that is what makes it about batches.

mod outages;

use futures_util::future::join;

use crate::prelude::*;

/// Most of them do not go out alone.
const SEVERAL: usize = 48;

type Locking = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Number, time, duration, words, and who sent it.
type SlowLogEntry = (u64, u64, u64, Vec<String>, String, String);

async fn world() -> (RedisServer, Proxy, LockClient) {
    let (server, proxy, client) = far_world().await;
    // The server knows all scripts from here on.
    release_all(hold_all(&client, SEVERAL).await).await;
    server.client().cmd(&["FLUSHALL"]).await;
    (server, proxy, client)
}

fn name(number: usize) -> String {
    format!("own:{number}")
}

fn locking(client: &LockClient, number: usize) -> Locking {
    let mutex = client.mutex(name(number));
    Box::pin(async move { mutex.lock().await })
}

async fn lock_all(client: &LockClient, count: usize) -> Vec<Result<LockGuard, LockError>> {
    let all = join_all((0..count).map(|number| locking(client, number)));
    timeout(SOON, all).await.expect("stuck")
}

/// All of which have to be granted.
async fn hold_all(client: &LockClient, count: usize) -> Vec<LockGuard> {
    lock_all(client, count).await.into_iter().map(Result::unwrap).collect()
}

async fn released(guards: Vec<Result<LockGuard, LockError>>) {
    release_all(guards.into_iter().map(Result::unwrap)).await;
}

/// Acquires that have been polled once, and wait.
fn polled(client: &LockClient, numbers: std::ops::Range<usize>) -> Vec<Locking> {
    let mut all: Vec<_> = numbers.map(|number| locking(client, number)).collect();
    for locking in &mut all {
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(locking.as_mut().poll(&mut context).is_pending());
    }
    all
}

async fn held(raw: &RawClient) -> Vec<String> {
    let keys = raw.keys().await;
    keys.into_iter().filter(|key| !key.starts_with("redisson_lock_token:")).collect()
}

async fn nothing_is_held(raw: &RawClient) {
    soon!("all is free", held(raw).await.is_empty());
}

/// Asserts that the requests since the last call shared scripts.
async fn were_batched(server: &RedisServer, requests: usize) {
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts * 2 <= requests as u64, "{scripts} scripts for {requests} requests");
    server.reset_stats().await;
}

/// Scripts that may be under way before others queue.
const PLACES: usize = 16;

/// Waits for proof that no place is lost: as many as may be under way go out alone.
async fn all_places_are_free(server: &RedisServer, client: &LockClient) {
    let raw = server.client();
    raw.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    soon!("they go out alone", {
        raw.cmd(&["SLOWLOG", "RESET"]).await;
        let guards = hold_all(client, PLACES).await;
        let log: Vec<SlowLogEntry> = raw.get(&["SLOWLOG", "GET", "128"]).await;
        release_all(guards).await;
        // EVALSHA, hash, count, 2 keys, 4 arguments, the number of the request. In a batch, the number of
        // the script as well.
        let alone =
            log.iter().filter(|(_, _, _, words, ..)| words[0] == "EVALSHA" && words.len() == 10);
        alone.count() == PLACES
    });
}

/// S-5, S-23: exclusive, held in the store, freed, and with growing tokens, in fewer scripts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_share_scripts() {
    const TASKS: usize = 200;
    let (server, proxy, client) = world().await;
    let (raw, other) = (server.client(), connect(&server).await);
    proxy.delay(ms(3));
    server.reset_stats().await;
    let mut last = vec![FencingToken::new(0); TASKS];
    for _ in 0..3 {
        let tasks = (0..TASKS).map(|number| lock_tests::spawn(locking(&client, number)));
        let guards: Vec<_> = joined(tasks).await.into_iter().map(Result::unwrap).collect();
        were_batched(&server, TASKS).await;
        let mut owners = BTreeSet::new();
        for (number, guard) in guards.iter().enumerate() {
            let hash = raw.hgetall(&name(number)).await;
            assert!(hash.values().eq(["1"]), "{hash:?}");
            owners.extend(hash.into_keys());
            assert!(guard.token() > last[number], "{:?} after {:?}", guard.token(), last[number]);
            last[number] = guard.token();
        }
        assert_eq!(owners.len(), TASKS, "one owner has two locks");
        for number in (0..TASKS).step_by(20) {
            assert!(other.mutex(name(number)).try_lock().await.unwrap().is_none());
        }
        server.reset_stats().await;
        let tasks = guards.into_iter().map(|guard| lock_tests::spawn(guard.release()));
        joined(tasks).await.into_iter().for_each(Result::unwrap);
        were_batched(&server, TASKS).await;
        assert_eq!(held(&raw).await, [""; 0]);
    }
}

/// A script delays all other clients, so requests with much work do not share one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_many_permits_share_no_script() {
    const REQUESTS: u64 = 64;
    let (server, proxy, client) = world().await;
    proxy.delay(ms(3));
    server.reset_stats().await;
    let tasks = (0..REQUESTS).map(|number| {
        let semaphore = client.semaphore(format!("many:{number}"), 1_000);
        lock_tests::spawn(async move { semaphore.acquire_many(1_000).await.unwrap() })
    });
    let guards = joined(tasks).await;
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts >= REQUESTS, "{scripts} scripts for {REQUESTS} requests");
    release_all(guards).await;
}

// S-8: what requests of one script have in common is sent once, and each gets its own lease all the same.
test_with!(each_lease_is_its_own, world(), async |(server, _proxy, client)| {
    server.reset_stats().await;
    // Two by two: some neighbours differ, and some do not.
    let lease_of = |number: usize| ms(20_000 + 10_000 * (number as u64 / 2 % 3));
    let all = join_all((0..SEVERAL).map(|number| {
        let mutex = client.mutex(name(number)).lease(Lease::Fixed(lease_of(number)));
        async move { mutex.lock().await.unwrap() }
    }));
    let guards = timeout(SOON, all).await.expect("stuck");
    were_batched(&server, SEVERAL).await;
    let raw = server.client();
    for number in 0..SEVERAL {
        let Ttl::Left(left) = raw.pttl(&name(number)).await else { panic!("{number}: no expiry") };
        let lease = lease_of(number);
        assert!((lease - ms(9_000)..=lease).contains(&left), "{number}: {left:?} of {lease:?}");
    }
    release_all(guards).await;
    nothing_is_held(&raw).await;
});

/// Whoever queues goes out when the first is answered, and not, taking and freeing, when overdue
/// by a millisecond.
#[tokio::test]
async fn a_free_place_is_used_at_once() {
    let (_server, client) = crate::prelude::world().await;
    let best_of = async |locks| {
        let start = Instant::now();
        release_all(hold_all(&client, locks).await).await;
        start.elapsed()
    };
    let (mut alone, mut more) = (Duration::MAX, Duration::MAX);
    // Four round trips instead of two; a delay of a millisecond each way would come on top.
    soon!("a round without delay", {
        alone = alone.min(best_of(PLACES).await);
        more = more.min(best_of(PLACES + 4).await);
        more < alone * 3 + ms(1)
    });
}

/// S-32: what is wrong with one key is told to the one who asked for it, taking and freeing.
#[tokio::test]
async fn a_foreign_value_hurts_no_other_request() {
    let (server, _proxy, client) = world().await;
    let raw = server.client();
    raw.cmd(&["SET", &name(15), "words"]).await;
    server.reset_stats().await;
    let mut guards = Vec::new();
    for (number, outcome) in lock_all(&client, SEVERAL).await.into_iter().enumerate() {
        match outcome {
            Ok(guard) => guards.push((number, guard)),
            Err(LockError::KeyCollision { .. }) if number == 15 => {}
            Err(error) => panic!("{number}: {error:?}"),
        }
    }
    assert_eq!(guards.len(), SEVERAL - 1);
    were_batched(&server, SEVERAL).await;
    raw.cmd(&["SET", &name(17), "words"]).await;
    let release = async |(number, guard): (usize, LockGuard)| (number, guard.release().await);
    for (number, outcome) in join_all(guards.into_iter().map(release)).await {
        let lost = matches!(outcome, Err(LockError::Lost { .. }));
        assert_eq!(lost, number == 17, "{number}: {outcome:?}");
        assert!(lost || outcome.is_ok(), "{number}: {outcome:?}");
    }
    assert_eq!(held(&raw).await, [name(15), name(17)]);
}

/// S-33: a key that the user may not touch, which the server refuses the whole script for.
#[tokio::test]
async fn a_forbidden_key_hurts_no_other_request() {
    let (server, _proxy, _) = world().await;
    let rules = ["ACL", "SETUSER", "app", "on", ">pw", "~own:*", "~redisson_lock_token:{own:*"];
    server.client().cmd(&[&rules[..], &["&*", "+@all"]].concat()).await;
    let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
    let client = LockClient::connect(&url).await.unwrap();
    let forbidden = client.mutex("forbidden");
    let first = lock_all(&client, PLACES);
    let mut others: Vec<_> = (PLACES..SEVERAL).map(|number| locking(&client, number)).collect();
    others.insert(8, Box::pin(async move { forbidden.lock().await }));
    let (first, mut others) = join(first, join_all(others)).await;
    let error = others.remove(8).unwrap_err();
    assert_eq!(store_kind(&error), Some(StoreErrorKind::Denied), "{error:?}");
    released(first.into_iter().chain(others).collect()).await;
}

// S-20, S-21: acquires and guards dropped at any moment leave nothing.
test_with!(drops_at_any_moment_leave_nothing, world(), async |(server, proxy, client)| {
    proxy.delay(ms(1));
    let dropped = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let (client, dropped) = (client.clone(), Arc::clone(&dropped));
            lock_tests::spawn(async move {
                // Follows the machine's pace, so that some are dropped and some are not.
                let mut most = 25_000;
                for round in 0..20 {
                    let limit = Duration::from_micros(fastrand::u64(0..most));
                    let locked = timeout(limit, locking(&client, number)).await;
                    most = if locked.is_ok() { most - most / 4 } else { most + most / 2 };
                    match locked {
                        Ok(guard) if round % 2 == 0 => drop(guard.unwrap()),
                        Ok(guard) => drop(timeout(limit, guard.unwrap().release()).await),
                        Err(_) => drop(dropped.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            })
        })
        .collect();
    joined(tasks).await;
    let dropped = dropped.load(Ordering::Relaxed);
    assert!((50..1_980).contains(&dropped), "{dropped} of 2000 dropped: says little");
    nothing_is_held(&server.client()).await;
});

/// S-21: a request whose caller has gone is not sent when its turn comes.
#[tokio::test]
async fn a_dropped_request_that_queued_is_not_sent() {
    let (server, _proxy, client) = world().await;
    // Nothing that queued can have gone out before this task waits.
    let mut all = polled(&client, 0..SEVERAL);
    all.truncate(PLACES);
    released(timeout(SOON, join_all(all)).await.expect("stuck")).await;
    assert!(client.shutdown(SOON).await.is_clean());
    let raw = server.client();
    assert_eq!(held(&raw).await, [""; 0]);
    for number in PLACES..SEVERAL {
        let counter = format!("redisson_lock_token:{{{}}}", name(number));
        assert!(!raw.exists(&counter).await, "{number} was asked for");
    }
}

/// Futures that no task polls, which cannot say that their answers have come.
#[tokio::test]
async fn futures_that_rest_delay_no_other_task() {
    let (server, _proxy, client) = world().await;
    let resting = polled(&client, 0..SEVERAL);
    for number in SEVERAL..SEVERAL + 4 {
        let guard = timeout(ms(700), locking(&client, number)).await.expect("held up");
        guard.unwrap().release().await.unwrap();
    }
    drop(resting);
    all_places_are_free(&server, &client).await;
}

/// S-19: out of memory, those that take are told so, and those that free in the same script
/// neither fail nor hide it.
#[tokio::test]
async fn out_of_memory_is_told_beside_releases() {
    let (server, _proxy, client) = world().await;
    let raw = server.client();
    for _ in 0..5 {
        let guards = hold_all(&client, SEVERAL).await;
        raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
        server.reset_stats().await;
        let takes = join_all((0..SEVERAL).map(|number| locking(&client, 100 + number)));
        let (_, outcomes) = timeout(SOON, join(release_all(guards), takes)).await.expect("stuck");
        were_batched(&server, 2 * SEVERAL).await;
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(store_kind(&error), Some(StoreErrorKind::OutOfMemory), "{error:?}");
        }
        assert_eq!(held(&raw).await, [""; 0]);
        raw.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
    }
}
