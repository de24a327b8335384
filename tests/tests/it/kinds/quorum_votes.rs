//! A lock on a majority of servers (S-29): releases whose answers are lost, servers that are late for
//! the whole request, tokens from majority to majority, and what a client knows of its holds.

use crate::prelude::*;
use crate::support::quorum::*;

async fn gone(servers: &[RedisServer], key: &str) {
    soon!("nothing is left", on(servers, key).await == 0);
}

/// A hold that every server has granted, and not only a majority: one may still be reconnecting.
async fn on_all(quorum: &LockClient, servers: &[RedisServer], key: &str) -> LockGuard {
    loop {
        let guard = quorum.mutex(key).lock().await.unwrap();
        for _ in 0..20 {
            if on(servers, key).await == servers.len() {
                return guard;
            }
            sleep(ms(10)).await;
        }
        guard.release().await.unwrap();
        gone(servers, key).await;
    }
}

/// S-19: servers whose answers to a release were lost do not count as ones that never had the lock.
/// Whatever the release says, nothing is left anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_to_a_release_are_no_votes() {
    let servers = servers(3).await;
    let proxies = proxies(&servers).await;
    let client = LockClient::builder().command_timeout(ms(300));
    let quorum = through(client, &proxies).await;
    // Whose answer is lost, where the lock is gone before, and whether that is a loss.
    let cases: [(&[usize], &[usize], bool); 6] = [
        (&[0], &[], false),
        (&[0, 1], &[], false),
        (&[0, 1, 2], &[], false),
        // Of the two that had it, one answers.
        (&[1], &[0], false),
        (&[2], &[0, 1], true),
        (&[], &[0, 1], true),
    ];
    for (lost, gone_before, is_lost) in cases {
        let case = format!("answers lost: {lost:?}, gone: {gone_before:?}");
        let guard = timeout(SOON, on_all(&quorum, &servers, "e")).await.expect("never on all");
        let dropped = || proxies.iter().map(Proxy::replies_dropped).sum::<usize>();
        let before = dropped();
        for server in gone_before {
            servers[*server].client().del("e").await;
        }
        lost.iter().for_each(|one| proxies[*one].drop_next_reply_to("redisson_lock__channel:{e}"));
        let outcome = timeout(SOON, guard.release()).await.expect("it hangs");
        match outcome {
            Ok(()) => assert!(!is_lost, "{case}"),
            Err(LockError::Lost { cause: LossCause::NotOwner, .. }) => assert!(is_lost, "{case}"),
            other => panic!("{case}: {other:?}"),
        }
        gone(&servers, "e").await;
        soon!(&case, dropped() == before + lost.len());
    }
}

/// S-23, S-28: a quorum's mutex that is part of a joint lock gets its token on a majority, so that the
/// next majority, which has one server in common with that one, goes on above it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_joint_lock_reach_the_next_majority() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    let single = RedisServer::start().await;
    let other = connect(&single).await;
    let ahead = (1u64 << 53) + 9;
    single.client().cmd(&["SET", "redisson_lock_token:{x}", &ahead.to_string()]).await;
    let joint = MultiLock::of([quorum.mutex("q").into(), other.mutex("x").into()]);
    let mut last = ahead;
    for out in [2, 0, 1, 2] {
        servers[out].pause();
        let guard = joint.lock().await.unwrap();
        assert!(guard.token().get() > last, "{} after {last}", guard.token());
        last = guard.token().get();
        assert_eq!(quorum.admin().held()[0].token, guard.token());
        guard.release().await.unwrap();
        servers[out].resume();
        gone(&servers, "q").await;
        // Another majority, of which one server was not in the first.
        let out = (out + 1) % 3;
        servers[out].pause();
        let guard = quorum.mutex("q").lock().await.unwrap();
        assert!(guard.token().get() > last, "{} after {last}", guard.token());
        last = guard.token().get();
        guard.release().await.unwrap();
        servers[out].resume();
        gone(&servers, "q").await;
    }
}

/// S-33: a majority that refuses us is an error at once and for what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_refuses_is_said_at_once() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    quorum.mutex("n").lock().await.unwrap().release().await.unwrap();
    gone(&servers, "n").await;
    for server in &servers[1..] {
        server.client().cmd(&["ACL", "SETUSER", "default", "-evalsha"]).await;
    }
    let start = Instant::now();
    let error = quorum.mutex("n").lock().await.unwrap_err();
    let LockError::Store(cause) = &error else { panic!("{error:?}") };
    assert_eq!(cause.kind(), StoreErrorKind::Denied, "{error:?}");
    assert!(start.elapsed() < patience(secs(1)), "{:?}", start.elapsed());
    gone(&servers, "n").await;
}
