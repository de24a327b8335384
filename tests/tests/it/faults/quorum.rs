//! A lock on a majority of servers (S-29) while servers die, hang, restart, and answer late.

use lock_runtime::LockClientBuilder;

use crate::prelude::*;
use crate::support::quorum::*;

/// Far more than an answer takes here, so that waiting for it shows.
const LONG: Duration = secs(2);

/// A builder whose clients give up soon.
fn impatient(server_timeout: Duration) -> LockClientBuilder {
    patient_for(ms(500), server_timeout)
}

fn patient_for(patience: Duration, server_timeout: Duration) -> LockClientBuilder {
    LockClient::builder().store_patience(patience).server_timeout(server_timeout)
}

async fn connect(builder: LockClientBuilder, servers: &[RedisServer]) -> LockClient {
    builder.connect_quorum(servers.iter().map(RedisServer::url), RestartGuard::Off).await.unwrap()
}

/// Each server knows the scripts after that.
async fn acquired_and_released(quorum: &LockClient) {
    quorum.mutex("r").lock().await.unwrap().release().await.unwrap();
}

// S-29, S-33: three of five dead are an error, no "busy", and leave nothing on the other two.
test_with!(three_of_five_dead_fail_cleanly, servers(5), async |servers| {
    let quorum = connect(impatient(ms(100)), &servers).await;
    acquired_and_released(&quorum).await;
    servers[2..].iter().for_each(RedisServer::kill);
    for (wait, limit) in [(false, LONG / 2), (true, LONG)] {
        let start = Instant::now();
        let error = match wait {
            true => quorum.mutex("gone").lock().await.map(drop).unwrap_err(),
            false => quorum.mutex("gone").try_lock().await.map(drop).unwrap_err(),
        };
        let waited = start.elapsed();
        assert!(waited < patience(limit), "{waited:?}");
        let LockError::Store(cause) = &error else { panic!("{error:?}") };
        assert_eq!(cause.kind(), StoreErrorKind::Unavailable);
        assert!(cause.to_string().contains("only 2 of the 5 servers"), "{cause}");
        // At once, unless this machine is too busy for the time that it waits for the answers.
        eventually(LONG, "nothing is left", async || on(&servers[..2], "gone").await == 0).await;
    }
    servers[2].restart().await;
    soon!(
        "a majority is enough",
        quorum.mutex("gone").try_lock().await.is_ok_and(|guard| guard.is_some())
    );
});

// S-29: a server that is known to be silent is not waited for, although its vote would decide.
test_with!(a_silent_server_has_no_casting_vote, servers(3), async |servers| {
    // Less than it takes to find out that its connection is dead.
    let limit = secs(1);
    let quorum = connect(LockClient::builder().server_timeout(limit), &servers).await;
    acquired_and_released(&quorum).await;
    servers[0].pause();
    // Another client holds the lock on one of the other two.
    let other = LockClient::connect(&servers[1].url()).await.unwrap();
    let held = other.mutex("r").lock().await.unwrap();
    let refused = async || {
        let start = Instant::now();
        let tried = quorum.mutex("r").try_lock().await;
        assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
        start.elapsed()
    };
    // The client learns of the silence when it waits for the first answer.
    let (first, next) = (refused().await, refused().await);
    assert!(next < patience(limit * 3 / 4), "{first:?}, then {next:?}");
    held.release().await.unwrap();
    servers[0].resume();
    soon!("nothing is left", on(&servers, "r").await == 0);
});

// S-21, S-29: what is granted after the vote was lost is given back: two servers have the lock of another client, the third takes
// its time, within limits.
test_with!(late_grants_are_given_back, servers(3), async |servers| {
    let proxies = proxies(&servers).await;
    let quorum = through(impatient(LONG), &proxies).await;
    acquired_and_released(&quorum).await;
    for server in &servers[..2] {
        server.client().cmd(&["HSET", "late", "somebody:1", "1"]).await;
        server.client().cmd(&["PEXPIRE", "late", "60000"]).await;
    }
    proxies[2].delay_requests(LONG * 3 / 4);
    let start = Instant::now();
    assert!(quorum.mutex("late").try_lock().await.unwrap().is_none());
    assert!(start.elapsed() < patience(LONG / 2), "waited for the slow one: {:?}", start.elapsed());
    soon!("the late grant", on(&servers[2..], "redisson_lock_token:{late}").await == 1);
    eventually(LONG, "it is given back", async || on(&servers, "late").await == 2).await;
});

/// S-29: a server that was still busy with an earlier request of the same acquire when the others had decided gets the hold,
/// too. Otherwise the next server to fail would end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_late_gets_the_hold_too() {
    let (servers, lease) = (servers(3).await, secs(2));
    let builder = LockClient::builder().command_timeout(ms(200)).server_timeout(SOON);
    let quorum = connect(builder, &servers).await;
    acquired_and_released(&quorum).await;
    soon!("it is on none", on(&servers, "r").await == 0);
    let other = LockClient::connect(&servers[1].url()).await.unwrap();
    let holder = other.mutex("late").lock().await.unwrap();
    servers[0].pause();
    let waiter = lock_tests::spawn(quorum.mutex("late").with(watched(lease)).lock());
    // It subscribes when its first request was refused. The first server has not answered that one.
    servers[2].wait_for_subscribers("redisson_lock__channel:{late}", 1).await;
    holder.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.expect("two are free").unwrap().unwrap();
    servers[0].resume();
    soon!("it is on all", on(&servers, "late").await == 3);
    servers[1].kill();
    sleep(lease * 3 / 2).await;
    assert!(!guard.is_lost(), "only one server has it");
    guard.release().await.unwrap();
}

// S-21: nor does one whose requests take longer than the releases that undo them: the servers know
// the script for the one and not for the other.
test_with!(a_release_never_overtakes_its_acquire, servers(3), async |servers| {
    let proxies = proxies(&servers).await;
    // A second release, which would hide the matter, comes after so long.
    let client = LockClient::builder().command_timeout(SOON);
    let quorum = through(client.server_timeout(LONG), &proxies).await;
    let guard = quorum.mutex("other").lock().await.unwrap();
    join_all(servers.iter().map(async |s| s.client().cmd(&["SCRIPT", "FLUSH"]).await)).await;
    guard.release().await.unwrap();
    soon!("all know how to release", on(&servers, "other").await == 0);
    proxies.iter().for_each(|proxy| proxy.delay_requests(ms(100)));
    drop(timeout(ms(50), quorum.mutex("dropped").lock()).await);
    let counted = async || on(&servers, "redisson_lock_token:{dropped}").await == 3;
    eventually(SOON, "it reaches the servers", counted).await;
    eventually(LONG, "nothing is left", async || on(&servers, "dropped").await == 0).await;
});

// S-12: a majority that has forgotten the hold is its end at once; a minority is not.
test_with!(a_majority_that_forgot_is_a_loss, servers(3), async |servers| {
    let quorum = connect(LockClient::builder(), &servers).await;
    let lease = ms(1_500);
    let guard = quorum.mutex("f").with(watched(lease)).lock().await.unwrap();
    soon!("it is on all", on(&servers, "f").await == 3);
    servers[0].client().del("f").await;
    sleep(2 * lease).await;
    assert!(!guard.is_lost());
    servers[1].client().del("f").await;
    let lost = timeout(SOON, guard.lost()).await.expect("the loss went unnoticed");
    assert!(matches!(lost, LockError::Lost { cause: LossCause::NotOwner, .. }), "{lost:?}");
    assert!(guard.release().await.unwrap_err().is_lost());
    eventually(LONG, "the third is given back", async || on(&servers, "f").await == 0).await;
});

// S-8, S-29: a hold is good for its lease less the time that asking took and a margin for drift.
test_with!(validity_counts_from_before_the_question, servers(3), async |servers| {
    let proxies = proxies(&servers).await;
    // Time for some round trips.
    let quorum = through(patient_for(ms(1_500), LONG), &proxies).await;
    acquired_and_released(&quorum).await;
    let lease = ms(1_000);
    proxies.iter().for_each(|proxy| proxy.delay_replies(ms(200)));
    let guard = quorum.mutex("v").with(fixed(lease)).lock().await.unwrap();
    // A lease of 1 s, a margin of 12 ms, and at least one answer.
    assert!(guard.remaining() < ms(788), "{:?}", guard.remaining());
    guard.release().await.unwrap();
    // Nothing is left of a lease that is over before the answers are there.
    let short = ms(150);
    let error = quorum.mutex("v").with(fixed(short)).lock().await.unwrap_err();
    assert!(error.to_string().contains("takes longer"), "{error:?}");
    eventually(LONG, "nothing is left", async || on(&servers, "v").await == 0).await;
});

// S-19, S-29: releasing needs a majority; what a slower server has goes when it answers.
test_with!(a_release_reaches_every_server_in_the_end, servers(3), async |servers| {
    let quorum = connect(impatient(LONG), &servers).await;
    let guard = quorum.mutex("e").lock().await.unwrap();
    soon!("it is on all", on(&servers, "e").await == 3);
    servers[2].pause();
    let start = Instant::now();
    guard.release().await.unwrap();
    assert!(start.elapsed() < patience(LONG / 2), "{:?}", start.elapsed());
    sleep(ms(500)).await;
    servers[2].resume();
    eventually(LONG, "the third is given back", async || on(&servers, "e").await == 0).await;
    // Two that do not answer are no success.
    let quorum = connect(impatient(ms(100)), &servers).await;
    let guard = quorum.mutex("e").lock().await.unwrap();
    servers[1..].iter().for_each(RedisServer::pause);
    assert!(matches!(guard.release().await, Err(LockError::Store(_))));
    servers[1..].iter().for_each(RedisServer::resume);
    eventually(LONG, "all is given back", async || on(&servers, "e").await == 0).await;
});

// S-19, S-29: a shutdown waits for what slower servers have to release, since the process may end next.
test_with!(a_shutdown_leaves_nothing_on_slower_servers, servers(3), async |servers| {
    let proxies = proxies(&servers).await;
    proxies[2].delay_requests(ms(300));
    for among_others in [false, true] {
        let urls: Vec<_> = proxies.iter().map(Proxy::url).collect();
        let (go_on, told) = tokio::sync::oneshot::channel();
        let process = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let quorum = impatient(LONG).connect_quorum(urls, RestartGuard::Off).await.unwrap();
                let other = LockClient::in_memory();
                let all = MultiLock::of([quorum.mutex("s").into(), other.mutex("o").into()]);
                let guard = match among_others {
                    true => all.lock().await.unwrap(),
                    false => quorum.mutex("s").lock().await.unwrap(),
                };
                told.await.unwrap();
                guard.release().await.unwrap();
                assert!(other.shutdown(LONG).await.is_clean());
                assert!(quorum.shutdown(LONG).await.is_clean());
            });
        });
        soon!("it is on all", on(&servers, "s").await == 3);
        go_on.send(()).unwrap();
        process.await.unwrap();
        assert_eq!(on(&servers, "s").await, 0, "among others: {among_others}");
    }
});

// A server that does not answer delays a shutdown by a second.
test_with!(a_shutdown_gives_a_silent_server_up, servers(3), async |servers| {
    let quorum = connect(impatient(LONG), &servers).await;
    servers[2].pause();
    acquired_and_released(&quorum).await;
    let start = Instant::now();
    assert!(quorum.shutdown(SOON).await.is_clean());
    assert!(start.elapsed() < patience(LONG), "{:?}", start.elapsed());
});
