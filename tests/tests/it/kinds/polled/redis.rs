//! The same on a real server, between two processes.

use crate::kinds::polled::*;

const LEASE: Duration = ms(1_500);

/// Plenty for a few round trips on a busy machine.
const PROMPTLY: Duration = ms(1_500);

async fn connect(server: &RedisServer, kind: &str) -> LockClient {
    let options = watched(LEASE);
    let builder = LockClient::builder().options(options).handoff_window(secs(5));
    match kind {
        "quorum" => {
            let quorum = builder.connect_quorum([server.url()], RestartGuard::Off).await;
            quorum.unwrap()
        }
        _ => builder.connect(&server.url()).await.unwrap(),
    }
}

/// Polls a future for a moment and then leaves it where it is.
async fn asleep(mut acquiring: Acquiring) -> Acquiring {
    assert!(timeout(ms(150), &mut acquiring).await.is_err(), "took a lock that was held");
    acquiring
}

/// S-34: the next waiter of the same process goes on after a second, in each kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeping_contender_is_passed_over() {
    for kind in KINDS {
        let server = RedisServer::start().await;
        let (holder, client) = (connect(&server, kind).await, connect(&server, kind).await);
        let held = lock(&holder, kind, "k").await.unwrap();
        let sleeper = asleep(lock(&client, kind, "k")).await;
        let behind = lock_tests::spawn(lock(&client, kind, "k"));
        sleep(ms(100)).await;
        held.release().await.unwrap();
        let start = Instant::now();
        let guard = timeout(secs(20), behind).await;
        let waited = start.elapsed();
        let guard = guard.unwrap_or_else(|_| panic!("{kind} hangs")).unwrap().unwrap();
        assert!(waited <= patience(ms(1_000) + PROMPTLY), "{kind}: waited {waited:?}");
        guard.release().await.unwrap();
        let late = timeout(PROMPTLY, sleeper).await.unwrap_or_else(|_| panic!("{kind}: no turn"));
        late.unwrap().release().await.unwrap();
    }
}

/// S-26, S-34: the place of a sleeping fair waiter ends with its waiter lease for other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_processes_wait_one_waiter_lease() {
    let server = RedisServer::start().await;
    let waiter_lease = ms(1_500);
    let builder = LockClient::builder().waiter_lease(waiter_lease);
    let client = builder.connect(&server.url()).await.unwrap();
    let other = connect(&server, "fair").await;
    let held = other.fair_mutex("k").lock().await.unwrap();
    let sleeper = asleep(lock(&client, "fair", "k")).await;
    let behind = lock_tests::spawn(other.fair_mutex("k").lock());
    sleep(ms(100)).await;
    held.release().await.unwrap();
    let start = Instant::now();
    let guard = timeout(waiter_lease * 4, behind).await.expect("hangs").unwrap().unwrap();
    let waited = start.elapsed();
    assert!(waited <= patience(waiter_lease + PROMPTLY), "waited {waited:?}");
    guard.release().await.unwrap();
    timeout(PROMPTLY, sleeper).await.expect("no turn").unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_grant_lasts_one_lease() {
    let server = RedisServer::start().await;
    let other = connect(&server, "mutex").await;
    let proxy = Proxy::start(server.port()).await;
    let options = watched(LEASE);
    let builder = LockClient::builder().options(options);
    let client = builder.connect(&proxy.url()).await.unwrap();
    proxy.delay_replies(ms(100));
    let mut sleeper = polled_once(lock(&client, "mutex", "k")).await;
    soon!("it is granted", !server.client().hgetall("k").await.is_empty());
    let start = Instant::now();
    let theirs = timeout(LEASE * 3, other.mutex("k").lock()).await.expect("renewed for ever");
    let waited = start.elapsed();
    assert!(waited <= patience(LEASE + PROMPTLY), "waited {waited:?}");
    assert!(timeout(ms(200), &mut sleeper).await.is_err(), "two have it");
    theirs.unwrap().release().await.unwrap();
    timeout(PROMPTLY, sleeper).await.expect("no turn").unwrap().release().await.unwrap();
}

/// S-34: contenders whose answers are slow keep their turns, those too whose requests share a script, and which have no
/// timer of their own for signs of life.
#[tokio::test]
async fn contenders_with_slow_answers_keep_their_turns() {
    const COUNT: u64 = 24;
    let (server, proxy, client) = far_world_with(secs(20)).await;
    let raw = server.client();
    proxy.delay_replies(ms(2_500));
    server.reset_stats().await;
    let asked = Instant::now();
    // A runtime of one thread polls them in this order: the first 16 go out alone, and the others queue before any task
    // can send them.
    let acquire = |n| lock_tests::spawn(lock(&client, "mutex", &format!("k{n}")));
    let contenders: Vec<_> = (0..COUNT).map(acquire).collect();
    soon!("all are granted", raw.keys().await.len() as u64 == 2 * COUNT);
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts <= 18, "{scripts} scripts, not what this is about");
    let behind: Vec<_> = (0..COUNT).map(acquire).collect();
    for (contender, behind) in contenders.into_iter().zip(behind) {
        let guard = timeout(SOON, contender).await.expect("hangs").unwrap().unwrap();
        assert!(asked.elapsed() >= ms(2_000), "not slow, not what this is about");
        assert!(!behind.is_finished(), "passed over");
        proxy.pass();
        guard.release().await.unwrap();
        timeout(SOON, behind).await.expect("hangs").unwrap().unwrap().release().await.unwrap();
    }
}
