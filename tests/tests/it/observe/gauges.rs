//! Gauges go back to zero whatever ends what they count.

use crate::observe::recorder::Kept;
use futures_util::TryFutureExt;

use crate::observe::scenario::*;

/// One gauge, whatever the policy and the kind.
fn shows(seen: &Kept, name: &str, number: u32) {
    assert!(seen.is(name, &[], number), "{name} is not {number}: {}", seen.text());
}

/// Dropped guards, dropped and aborted waiters, a body that panics, a lease that ends.
#[tokio::test]
async fn drops_and_cancellations() {
    let (seen, _here) = Kept::here();
    let client = builder().in_memory().unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let nested = guard.run(client.mutex("a").lock()).await.unwrap().unwrap();
    let readers = client.rw_lock("b").read().await.unwrap();
    let more = client.rw_lock("b").read().await.unwrap();
    shows(&seen, "lock_held", 2);
    shows(&seen, "lock_waiting", 0);

    let tasks = [(); 5].map(|()| lock_tests::spawn(client.mutex("a").lock().map(drop)));
    soon!("all wait", seen.is("lock_waiting", &[], 5));
    tasks[1].abort();
    tasks[4].abort();
    soon!("two are gone", seen.is("lock_waiting", &[], 3));
    drop((guard, readers));
    shows(&seen, "lock_held", 2);
    drop((nested, more));
    seen.idle().await;
    assert!(seen.is("lock_acquire_total", &[("outcome", "cancelled")], 2));

    let guard = client.mutex("a").lock().await.unwrap();
    let panics = lock_tests::spawn(async move { guard.run(async { panic!("planned") }).await });
    assert!(panics.await.unwrap_err().is_panic());
    seen.idle().await;

    let releases = seen.sum("lock_release_total", &[]) as u32;
    let guard = client.mutex("a").with(fixed(ms(120))).lock().await.unwrap();
    shows(&seen, "lock_held", 1);
    seen.idle().await;
    assert!(guard.is_lost());
    drop(guard);
    client.shutdown(SOON).await;
    seen.assert_idle();
    shows(&seen, "lock_release_total", releases + 1);
}

/// S-14: a hold that is handed on is one hold, of the policy of the task that has it.
#[tokio::test]
async fn hand_offs_change_the_policy() {
    let (seen, _here) = Kept::here();
    let client = builder().in_memory().unwrap();
    let held = client.mutex("a").lock().await.unwrap();
    let first = lock_tests::spawn(client.mutex("a").lock());
    soon!("one waits", seen.is("lock_waiting", &[], 1));
    let second = lock_tests::spawn(client.policy_lock("checkout", ["a"]).lock());
    soon!("two wait", seen.is("lock_waiting", &[], 2));
    held.release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(seen.is("lock_handoff_total", &[("policy", "checkout")], 1), "{}", seen.text());
    assert!(seen.is("lock_held", &[("policy", "checkout")], 1));
    shows(&seen, "lock_held", 1);
    second.release().await.unwrap();
    seen.assert_idle();
}

/// S-19: a release that took effect is no loss, although its answer was lost, or no task waited for it.
#[tokio::test]
async fn releases_without_an_answer_are_no_losses() {
    let (seen, _here) = Kept::here();
    let (server, proxy) = proxied().await;
    let client = builder().connect(&proxy.url()).await.unwrap();
    let dropped = client.mutex("dropped").lock().await.unwrap();
    proxy.drop_next_reply_to("dropped");
    drop(dropped);
    soon!("it is given back", seen.is("lock_release_total", &[], 1));
    let cut_short = client.mutex("cut short").lock().await.unwrap();
    proxy.delay_replies(ms(100));
    let mut release = Box::pin(cut_short.release());
    let free = async || !server.client().exists("cut short").await;
    tokio::select! {
        _ = &mut release => panic!("the reply is not late"),
        () = eventually(SOON, "it is free", free) => {}
    }
    drop(release);
    soon!("it is given back", seen.is("lock_release_total", &[], 2));
    proxy.delay_replies(Duration::ZERO);
    // Given up on by the caller, and done later: that is one release.
    let given_up = client.mutex("given up").lock().await.unwrap();
    server.pause();
    assert!(matches!(given_up.release().await, Err(LockError::Store(_))));
    server.resume();
    soon!("it is free", !server.client().exists("given up").await);
    assert!(client.shutdown(SOON).await.is_clean());
    assert!(seen.is("lock_release_total", &[("outcome", "failed")], 1), "{}", seen.text());
    assert!(seen.is("lock_release_total", &[("outcome", "released")], 2), "{}", seen.text());
    shows(&seen, "lock_lost_total", 0);
    seen.idle().await;
}

/// S-20: the client ends with guards alive and tasks in line; the server is killed under others.
#[tokio::test]
async fn shutdown_and_a_killed_server() {
    let (seen, _here) = Kept::here();
    let server = RedisServer::start().await;
    let Pair { client, other } = redis(&server).await;
    let short = watched(ms(500));
    let guard = client.mutex("a").with(short.clone()).lock().await.unwrap();
    let waiter = lock_tests::spawn(client.mutex("a").lock().map_ok(drop));
    soon!("one waits", seen.is("lock_waiting", &[], 1));
    assert_eq!(client.shutdown(ms(20)).await.still_held, 1);
    waiter.await.unwrap().unwrap_err();
    shows(&seen, "lock_waiting", 0);
    seen.idle().await;
    drop(guard);

    let guard = other.mutex("b").with(short.clone()).lock().await.unwrap();
    let held = other.fair_mutex("c").with(short).lock().await.unwrap();
    let waiter = lock_tests::spawn(other.fair_mutex("c").lock().map_ok(drop));
    soon!("one waits", seen.is("lock_waiting", &[], 1));
    server.kill();
    waiter.await.unwrap().unwrap_err();
    seen.idle().await;
    drop((guard, held));
    seen.assert_idle();
}
