//! A `LockWatch` is over when its guard is, whatever becomes of the lock (S-12).

use lock_runtime::guard::LockWatch;
use lock_runtime::scope;

use crate::prelude::*;
use crate::support::kinds::{KINDS_AND_SEVERAL, take_one_or_several};
use crate::support::quorum::{quorum_of, servers};

/// A client that hands a hold on for as long as a test takes.
fn client() -> LockClient {
    LockClient::builder().handoff_window(SOON).in_memory().unwrap()
}

fn cause(error: &LockError) -> LossCause {
    let LockError::Lost { cause, .. } = error else { panic!("{error:?}") };
    *cause
}

/// Each way to ask gives this cause.
async fn is_over(what: &str, watch: &LockWatch, expected: LossCause) {
    assert_eq!(watch.remaining(), Duration::ZERO, "{what}");
    assert!(watch.is_lost(), "{what}");
    assert_eq!(watch.check().map_err(|error| cause(&error)), Err(expected), "{what}");
    let lost = timeout(SOON, watch.lost()).await.unwrap_or_else(|_| panic!("{what}: waits on"));
    assert_eq!(cause(&lost), expected, "{what}");
}

async fn is_released(what: &str, watch: &LockWatch) {
    is_over(what, watch, LossCause::Released).await;
}

fn goes_on(what: &str, watch: &LockWatch) {
    assert!(watch.check().is_ok() && !watch.is_lost(), "{what}");
    assert!(!watch.remaining().is_zero(), "{what}");
}

/// Also for a task that waits for its end.
async fn ends_with(kind: &str, guard: LockGuard, is_dropped: bool) {
    let watch = guard.watch();
    goes_on(kind, &watch);
    let waits = lock_tests::spawn({
        let watch = watch.clone();
        async move { cause(&watch.lost().await) }
    });
    match is_dropped {
        true => drop(guard),
        false => guard.release().await.unwrap(),
    }
    is_released(kind, &watch).await;
    assert_eq!(joined([waits]).await, [LossCause::Released], "{kind}");
}

/// Each kind of every store, released and dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_over_once_its_guard_is_released() {
    let (_server, redis) = world().await;
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    for is_dropped in [false, true] {
        for client in [&redis, &client()] {
            for kind in KINDS_AND_SEVERAL {
                let take = take_one_or_several(client, kind, kind, LockOptions::default());
                ends_with(kind, take.await.unwrap(), is_dropped).await;
            }
        }
        ends_with("quorum", quorum.mutex("q").lock().await.unwrap(), is_dropped).await;
    }
}

/// Has the lock freed by force, which `guard` learns of, and not the watch of a guard that was released before.
async fn loses(client: &LockClient, guard: LockGuard, before: &LockWatch) {
    let watch = guard.watch();
    goes_on("the second", &watch);
    assert!(client.admin().force_release(guard.key()).await.unwrap());
    assert_eq!(cause(&guard.extend(secs(60)).await.unwrap_err()), LossCause::NotOwner);
    is_released("the first", before).await;
    drop(guard);
    is_over("the second", &watch, LossCause::NotOwner).await;
}

/// S-14: the hold goes on, in other hands.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_hold_is_handed_on() {
    let client = client();
    let lock = client.mutex("handed");
    let held = lock.lock().await.unwrap();
    let mut waiting = [(); 3].map(|()| Box::pin(lock.lock()));
    for waiter in &mut waiting {
        assert!(poll!(waiter).is_pending());
    }
    held.release().await.unwrap();
    let [first, second, _third] = waiting;
    let first = first.await.unwrap();
    let watch = first.watch();
    first.release().await.unwrap();
    let second = second.await.unwrap();
    assert_eq!(second.token().get(), watch.token().get() + 1, "handed on without the store");
    is_released("the first", &watch).await;
    loses(&client, second, &watch).await;
}

/// S-27: readers of one process share a hold of the store.
#[tokio::test(start_paused = true)]
async fn a_read_that_shares_its_hold_has_a_watch_of_its_own() {
    let client = client();
    let lock = client.rw_lock("shared");
    let (one, other) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let watch = one.run(async { LockGuard::current().unwrap() }).await.unwrap();
    ends_with("the first read", one, false).await;
    is_released("seen from inside", &watch).await;
    loses(&client, other, &watch).await;
}

/// S-27: the write hold goes under its readers, or becomes a read hold.
#[tokio::test(start_paused = true)]
async fn a_writer_has_a_watch_of_its_own() {
    let lock = client().rw_lock("turns");
    let writer = lock.write().await.unwrap();
    let mut reader = Box::pin(lock.read());
    assert!(poll!(&mut reader).is_pending());
    ends_with("the writer", writer, false).await;
    ends_with("the reader", reader.await.unwrap(), false).await;

    let writer = lock.write().await.unwrap();
    let reader = writer.run(lock.read()).await.unwrap().unwrap();
    ends_with("the downgraded", writer, false).await;
    ends_with("its read", reader, false).await;
}

/// S-6: a sibling may be inside once a re-entry has ended.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_re_entry_ends_before_the_hold() {
    let lock = client().mutex("nested");
    let outer = lock.lock().await.unwrap();
    let nested = outer.run(lock.lock()).await.unwrap().unwrap();
    let from_inside = nested.run(async { LockGuard::current().unwrap() }).await.unwrap();
    goes_on("from inside", &from_inside);
    ends_with("the re-entry", nested, false).await;
    is_released("from inside", &from_inside).await;
    goes_on("the hold", &outer.watch());
    // The innermost guard that is there, not one that was.
    let current = outer.run(async {
        drop(lock.lock().await.unwrap());
        LockGuard::current().unwrap()
    });
    goes_on("the hold", &current.await.unwrap());
}

/// What was lost before its release stays lost, also for those who look later.
#[tokio::test(start_paused = true)]
async fn a_loss_before_the_release_stays_a_loss() {
    let client = client();
    for (kind, _) in KINDS {
        let guard = take_named(&client, kind, fixed(secs(1))).await.unwrap();
        let watch = guard.watch();
        sleep(secs(2)).await;
        assert_eq!(cause(&guard.release().await.unwrap_err()), LossCause::Deadline, "{kind}");
        is_over(kind, &watch, LossCause::Deadline).await;
    }
}

/// A future that outlives the guards it was made under is inside of the innermost one that is not over.
#[tokio::test(start_paused = true)]
async fn the_innermost_guard_is_one_that_is_not_over() {
    let client = client();
    let lock = client.rw_lock("shared");
    let (one, other) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let several = MultiLock::of([client.mutex("a").into(), client.fair_mutex("b").into()]);
    let several = several.lock().await.unwrap();
    let names = || {
        [(); 3].map(|()| {
            Box::pin(scope::inherit(async {
                LockGuard::current().map(|watch| watch.key().clone())
            }))
        })
    };
    let [all, without_read, none] = several.run(one.run(async { names() })).await.unwrap().unwrap();
    assert_eq!(all.await.as_ref(), Some(one.key()));
    // The hold goes on for the other reader.
    one.release().await.unwrap();
    assert_eq!(without_read.await.as_ref(), Some(several.key()));
    several.release().await.unwrap();
    assert_eq!(none.await, None);
    drop(other);
}
