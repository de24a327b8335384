//! A `LockWatch` is over when its guard is, whatever becomes of the lock (S-12).

use lock_runtime::guard::LockWatch;

use crate::prelude::*;
use crate::support::kinds::{KINDS_AND_SEVERAL, take_one_or_several};
use crate::support::quorum::{quorum_of, servers};

/// A client of a server, and one of a store in memory, which hand a hold on for as long as a test takes.
async fn clients(server: &RedisServer) -> [LockClient; 2] {
    let builder = || LockClient::builder().handoff_window(SOON);
    [builder().connect(&server.url()).await.unwrap(), builder().store(MemoryStore::new()).unwrap()]
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

fn goes_on(what: &str, watch: &LockWatch) {
    assert!(watch.check().is_ok() && !watch.is_lost(), "{what}");
    assert!(!watch.remaining().is_zero(), "{what}");
}

/// A task that waits for the end of the watch, and returns its cause.
fn waits_for(watch: &LockWatch) -> JoinHandle<LossCause> {
    let watch = watch.clone();
    lock_tests::spawn(async move { cause(&watch.lost().await) })
}

/// Each kind of every store, released and dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_over_once_its_guard_is_released() {
    let server = RedisServer::start().await;
    for client in clients(&server).await {
        for kind in KINDS_AND_SEVERAL {
            for is_dropped in [false, true] {
                let take = take_one_or_several(&client, kind, kind, LockOptions::default());
                ends_with(kind, take.await.unwrap(), is_dropped).await;
            }
        }
    }
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    for is_dropped in [false, true] {
        ends_with("quorum", quorum.mutex("q").lock().await.unwrap(), is_dropped).await;
    }
}

async fn ends_with(kind: &str, guard: LockGuard, is_dropped: bool) {
    let watch = guard.watch();
    goes_on(kind, &watch);
    let waits = waits_for(&watch);
    match is_dropped {
        true => drop(guard),
        false => guard.release().await.unwrap(),
    }
    is_over(kind, &watch, LossCause::Released).await;
    let cause = timeout(SOON, waits).await.unwrap_or_else(|_| panic!("{kind}: waits on"));
    assert_eq!(cause.unwrap(), LossCause::Released, "{kind}");
}

/// S-14: the hold goes on, in other hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_when_its_hold_is_handed_on() {
    let server = RedisServer::start().await;
    for client in clients(&server).await {
        let lock = client.mutex("handed");
        let held = lock.lock().await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let lock = lock.clone();
            let mut waiter = Box::pin(async move { lock.lock().await });
            assert!(poll!(&mut waiter).is_pending());
            waiting.push(waiter);
        }
        held.release().await.unwrap();
        let mut waiting = waiting.into_iter();
        let first = timeout(SOON, waiting.next().unwrap()).await.unwrap().unwrap();
        let (watch, waits) = (first.watch(), waits_for(&first.watch()));
        first.release().await.unwrap();
        let second = timeout(SOON, waiting.next().unwrap()).await.unwrap().unwrap();
        assert_eq!(second.token().get(), watch.token().get() + 1, "handed on without the store");
        is_over("the first", &watch, LossCause::Released).await;
        assert_eq!(timeout(SOON, waits).await.unwrap().unwrap(), LossCause::Released);
        goes_on("the second", &second.watch());
        // A loss of the second is none of the first, and the second learns of it.
        let watch_of_second = second.watch();
        assert!(client.admin().force_release("handed").await.unwrap());
        assert_eq!(cause(&second.extend(secs(60)).await.unwrap_err()), LossCause::NotOwner);
        is_over("the first", &watch, LossCause::Released).await;
        drop(second);
        is_over("the second", &watch_of_second, LossCause::NotOwner).await;
    }
}

/// S-27: readers of one process share a hold of the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_shares_its_hold_has_a_watch_of_its_own() {
    let server = RedisServer::start().await;
    for client in clients(&server).await {
        let lock = client.rw_lock("shared");
        let one = lock.read().await.unwrap();
        let other = lock.read().await.unwrap();
        let (watch, rest) = (one.watch(), other.watch());
        let from_inside = one.run(async { LockGuard::current().unwrap() }).await.unwrap();
        let waits = waits_for(&from_inside);
        one.release().await.unwrap();
        is_over("the first read", &watch, LossCause::Released).await;
        is_over("seen from inside", &from_inside, LossCause::Released).await;
        assert_eq!(timeout(SOON, waits).await.unwrap().unwrap(), LossCause::Released);
        goes_on("the other read", &rest);
        assert!(client.admin().force_release("shared").await.unwrap());
        assert_eq!(cause(&other.extend(secs(60)).await.unwrap_err()), LossCause::NotOwner);
        is_over("the first read", &watch, LossCause::Released).await;
        drop(other);
        is_over("the other read", &rest, LossCause::NotOwner).await;
    }
}

/// S-27: the write hold goes under its readers, or becomes a read hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_has_a_watch_of_its_own() {
    let server = RedisServer::start().await;
    for client in clients(&server).await {
        let lock = client.rw_lock("turns");
        let writer = lock.write().await.unwrap();
        let mut reader = Box::pin(lock.read());
        assert!(poll!(&mut reader).is_pending());
        let watch = writer.watch();
        writer.release().await.unwrap();
        let reader = timeout(SOON, reader).await.unwrap().unwrap();
        is_over("the writer", &watch, LossCause::Released).await;
        goes_on("the reader", &reader.watch());
        reader.release().await.unwrap();

        let writer = lock.write().await.unwrap();
        let reader = writer.run(lock.read()).await.unwrap().unwrap();
        let (watch, watch_of_reader) = (writer.watch(), reader.watch());
        writer.release().await.unwrap();
        is_over("the downgraded", &watch, LossCause::Released).await;
        goes_on("its read", &watch_of_reader);
        reader.release().await.unwrap();
        is_over("its read", &watch_of_reader, LossCause::Released).await;
    }
}

/// S-6: a sibling may be inside once a re-entry has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_a_re_entry_ends_before_the_hold() {
    let server = RedisServer::start().await;
    for client in clients(&server).await {
        let lock = client.mutex("nested");
        let outer = lock.lock().await.unwrap();
        let nested = outer.run(lock.lock()).await.unwrap().unwrap();
        let (watch, waits) = (nested.watch(), waits_for(&nested.watch()));
        let from_inside = nested.run(async { LockGuard::current().unwrap() }).await.unwrap();
        goes_on("from inside", &from_inside);
        nested.release().await.unwrap();
        is_over("the re-entry", &watch, LossCause::Released).await;
        is_over("from inside", &from_inside, LossCause::Released).await;
        assert_eq!(timeout(SOON, waits).await.unwrap().unwrap(), LossCause::Released);
        goes_on("the hold", &outer.watch());
        // The innermost guard that is there, not one that was.
        let current = outer.run(async {
            drop(lock.lock().await.unwrap());
            LockGuard::current().unwrap()
        });
        goes_on("the hold", &current.await.unwrap());
        outer.release().await.unwrap();
    }
}

/// What was lost before its release stays lost, also for those who look later.
#[tokio::test(start_paused = true)]
async fn a_loss_before_the_release_stays_a_loss() {
    let client = LockClient::in_memory();
    for (kind, _) in KINDS {
        let guard = take_named(&client, kind, fixed(secs(1))).await.unwrap();
        let watch = guard.watch();
        sleep(secs(2)).await;
        assert_eq!(cause(&guard.release().await.unwrap_err()), LossCause::Deadline, "{kind}");
        is_over(kind, &watch, LossCause::Deadline).await;
    }
}

/// As docs/jobs.md has it: work that no await can stop asks between its steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_work_stops_when_its_guard_is_dropped() {
    let (_server, client) = world().await;
    let lock = client.mutex("work");
    let guard = lock.lock().await.unwrap();
    let watch = guard.watch();
    let work = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        while watch.check().is_ok() {
            assert!(start.elapsed() < patience(SOON), "it works on although the lock was released");
            std::thread::sleep(ms(1));
        }
    });
    drop(guard);
    work.await.unwrap();
    lock.lock().await.unwrap().release().await.unwrap();
}

/// The guard of a thread has the same watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_a_blocking_guard_is_over_with_it() {
    let server = RedisServer::start().await;
    let url = server.url();
    let watch = tokio::task::spawn_blocking(move || {
        let client = LockClient::builder().connect_blocking(&url).unwrap();
        let guard = client.mutex("thread").blocking_lock().unwrap();
        let watch = guard.watch();
        goes_on("held", &watch);
        guard.blocking_release().unwrap();
        watch
    });
    is_over("released", &watch.await.unwrap(), LossCause::Released).await;
}
