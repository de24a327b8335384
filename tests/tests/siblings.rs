//! Calls side by side inside one hold (S-6): they exclude each other as they would outside, in order;
//! reads share, and what is nested in one of them does not wait.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::poll;
use http::{Request, Response};
use http_body_util::Full;
use lock_runtime::policy::LockConfig;
use lock_runtime::{
    BusyReason, DeclaredKind, Lease, LockClient, LockError, LockGuard, LockKey, LockOptions,
    MultiLock, MultiMember, distributed_lock, scope,
};
use lock_tower::LockLayer;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

/// More than anything here takes, on a paused clock.
const SOON: Duration = Duration::from_secs(20);

/// How long a turn is kept for a future that is not polled (S-34).
const TURN: Duration = Duration::from_secs(1);

/// Reads, waits and writes: two at once lose an update.
#[derive(Default, Clone)]
struct Sum(Arc<AtomicU32>);

impl Sum {
    async fn add(&self) {
        let before = self.get();
        sleep(Duration::from_millis(5)).await;
        self.0.store(before + 1, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

#[distributed_lock(key = "sum", client = client)]
async fn add(client: &LockClient, sum: &Sum) -> Result<(), LockError> {
    sum.add().await;
    // Nested in this call: it does not wait.
    nothing(client).await
}

#[distributed_lock(key = "sum", client = client)]
async fn nothing(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

#[distributed_lock(key = "sum", client = client)]
async fn add_twice(client: &LockClient, sum: &Sum) -> Result<(), LockError> {
    let (one, two) = tokio::join!(add(client, sum), add(client, sum));
    one.and(two)
}

async fn soon<T>(inside: impl Future<Output = T>) -> T {
    timeout(SOON, inside).await.expect("they wait for ever")
}

/// Lets everything that has been woken run.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn annotated_functions_under_a_common_guard() {
    let (client, sum) = (LockClient::in_memory(), Sum::default());
    let guard = client.mutex("sum").lock().await.unwrap();
    let both = async { tokio::join!(add(&client, &sum), add(&client, &sum)) };
    let (one, two) = soon(guard.run(both)).await.unwrap();
    one.and(two).unwrap();
    assert_eq!(sum.get(), 2, "an update was lost");
}

#[tokio::test(start_paused = true)]
async fn annotated_functions_called_by_an_annotated_function() {
    let (client, sum) = (LockClient::in_memory(), Sum::default());
    let calls = (0..4).map(|_| add_twice(&client, &sum));
    let all = async { join_all(calls).await.into_iter().collect::<Result<(), _>>() };
    soon(all).await.unwrap();
    assert_eq!(sum.get(), 8, "an update was lost");
}

#[tokio::test(start_paused = true)]
async fn calls_and_handlers_under_a_layer() {
    let (client, sum) = (LockClient::in_memory(), Sum::default());
    let handler = service_fn({
        let (client, sum) = (client.clone(), sum.clone());
        move |_: Request<Full<Bytes>>| {
            let (client, sum) = (client.clone(), sum.clone());
            async move {
                let (one, two) = tokio::join!(add(&client, &sum), add(&client, &sum));
                one.and(two).unwrap();
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            }
        }
    });
    let layer = LockLayer::http().key("sum").client(client.clone()).build().unwrap();
    let request = || Request::post("/").body(Full::default()).unwrap();
    let service = layer.layer(handler);
    soon(service.clone().oneshot(request())).await.unwrap();
    assert_eq!(sum.get(), 2, "an update was lost under the HTTP layer");

    // Handlers of both layers, side by side in one hold.
    let generic = LockLayer::new(client.clone(), |_: &()| Ok(Some(LockKey::new("sum")?)));
    let generic = generic.layer(service_fn({
        let sum = sum.clone();
        move |()| {
            let sum = sum.clone();
            async move {
                sum.add().await;
                Ok::<_, Infallible>(())
            }
        }
    }));
    let guard = client.mutex("sum").lock().await.unwrap();
    let both = async { tokio::join!(service.oneshot(request()), generic.oneshot(())) };
    let (one, two) = soon(guard.run(both)).await.unwrap();
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(sum.get(), 5, "an update was lost beside another handler");
}

/// S-6: spawned tasks inherit the place of whoever spawned them.
#[tokio::test(start_paused = true)]
async fn inherited_tasks_exclude_each_other() {
    let (client, sum) = (LockClient::in_memory(), Sum::default());
    let guard = client.mutex("sum").lock().await.unwrap();
    let inside = async {
        let tasks = (0..3).map(|_| {
            let (client, sum) = (client.clone(), sum.clone());
            tokio::spawn(scope::inherit(async move { add(&client, &sum).await }))
        });
        for task in join_all(tasks).await {
            task.unwrap().unwrap();
        }
    };
    soon(guard.run(inside)).await.unwrap();
    assert_eq!(sum.get(), 3, "an update was lost");
}

/// A re-entry is over when everything inside of it is, also what has outlived its guard.
#[tokio::test(start_paused = true)]
async fn what_outlives_a_re_entry_keeps_its_siblings_out() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let nested = one.run(async {
            let lock = lock.clone();
            tokio::spawn(scope::inherit(async move { lock.lock().await })).await.unwrap().unwrap()
        });
        let nested = nested.await.unwrap();
        one.release().await.unwrap();
        let mut two = pin!(lock.lock());
        assert!(poll!(&mut two).is_pending(), "what is nested is still inside");
        nested.release().await.unwrap();
        two.await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

/// A re-entry may run where the one that it was taken in does not: that is around it all the same.
#[tokio::test(start_paused = true)]
async fn a_re_entry_waits_for_nothing_that_it_was_taken_in() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let two = one.run(lock.lock()).await.unwrap().unwrap();
        let three = two.run(lock.lock()).await.unwrap().unwrap();
        three.release().await.unwrap();
        // Also one whose own place is gone.
        let three = two.run(lock.lock()).await.unwrap().unwrap();
        two.release().await.unwrap();
        three.run(lock.lock()).await.unwrap().unwrap().release().await.unwrap();
        assert!(lock.try_lock().await.unwrap().is_none(), "two are inside");
    };
    soon(outer.run(inside)).await.unwrap();
}

/// A task whose re-entry is gone is beside those that come now.
#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_its_re_entry_is_beside_the_others() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let (go, told) = oneshot::channel::<()>();
        let late = one.run(async {
            let lock = lock.clone();
            tokio::spawn(scope::inherit(async move {
                told.await.unwrap();
                lock.lock().await.unwrap().release().await
            }))
        });
        let late = late.await.unwrap();
        one.release().await.unwrap();
        let two = lock.lock().await.unwrap();
        go.send(()).unwrap();
        settle().await;
        assert!(!late.is_finished(), "it went in beside its sibling");
        two.release().await.unwrap();
        late.await.unwrap().unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

/// The guards that a waiting task lined up behind are all gone: it takes the lock like anybody else.
#[tokio::test(start_paused = true)]
async fn a_waiter_outlives_the_hold() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let lock = lock.clone();
        let waiter = tokio::spawn(scope::inherit(async move { lock.lock().await }));
        settle().await;
        (one, waiter)
    };
    let (one, waiter) = outer.run(inside).await.unwrap();
    let token = outer.token();
    outer.release().await.unwrap();
    assert!(!waiter.is_finished(), "two are inside");
    one.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.token() >= token);
    assert!(lock.try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    drop(lock.try_lock().await.unwrap().expect("it is free"));
}

/// S-6, S-27: reads share, in a read and in a write; a write inside of a write waits for them, and they
/// for it.
#[tokio::test(start_paused = true)]
async fn reads_share_and_writes_are_alone() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = lock.read().await.unwrap();
    let (one, two) = outer.run(async { tokio::join!(lock.read(), lock.read()) }).await.unwrap();
    drop((one.unwrap(), two.unwrap()));
    outer.release().await.unwrap();

    let outer = lock.write().await.unwrap();
    let inside = async {
        let (one, two) = tokio::join!(lock.read(), lock.read());
        let (one, two) = (one.unwrap(), two.unwrap());
        let mut write = pin!(lock.write());
        assert!(poll!(&mut write).is_pending(), "a write beside two reads");
        assert!(lock.try_write().await.unwrap().is_none());
        one.release().await.unwrap();
        assert!(poll!(&mut write).is_pending(), "a write beside a read");
        // First in, first out: who comes now waits for the write.
        assert!(lock.try_read().await.unwrap().is_none(), "it overtook the write");
        two.release().await.unwrap();
        let write = write.await.unwrap();
        let mut read = pin!(lock.read());
        assert!(poll!(&mut read).is_pending(), "a read beside a write");
        write.release().await.unwrap();
        read.await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
    outer.release().await.unwrap();
}

/// S-27: a read inside of a write covers a write inside of it only where it is the one read.
#[tokio::test(start_paused = true)]
async fn a_write_inside_of_one_of_two_reads_is_refused() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = lock.write().await.unwrap();
    let inside = async {
        let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
        let refused = timeout(Duration::from_millis(10), one.run(lock.write())).await;
        let refused = refused.expect("it waits, as the other might for it").unwrap();
        assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })), "{refused:?}");
        two.release().await.unwrap();
        let write = one.run(lock.write()).await.unwrap().unwrap();
        assert!(lock.try_read().await.unwrap().is_none(), "a read beside a write");
        write.release().await.unwrap();
        drop(lock.try_read().await.unwrap().expect("reads share"));
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-28: of several locks held at once, only the same ones exclude each other.
#[tokio::test(start_paused = true)]
async fn locks_of_a_multi_lock_exclude_each_other_one_by_one() {
    let client = LockClient::in_memory();
    let other = LockClient::in_memory();
    let together = client.multi_lock(["a", "b", "c"]);
    let members = ["a", "b", "c"].map(|name| client.mutex(name).into());
    let beside: MultiMember = other.mutex("d").into();
    let of_two = MultiLock::of(members.into_iter().chain([beside]));
    for outer in [together, of_two] {
        let outer = soon(outer.lock()).await.unwrap();
        let inside = async {
            let a = client.mutex("a").lock().await.unwrap();
            let b = client.multi_lock(["b"]).try_lock().await.unwrap().expect("another lock");
            assert!(client.mutex("a").try_lock().await.unwrap().is_none(), "two have a");
            let mut both = pin!(client.multi_lock(["a", "b"]).lock());
            assert!(poll!(&mut both).is_pending(), "two have a and b");
            b.release().await.unwrap();
            assert!(poll!(&mut both).is_pending(), "two have a");
            drop(client.mutex("c").try_lock().await.unwrap().expect("another lock"));
            a.release().await.unwrap();
            let both = both.await.unwrap();
            // Nested in it: neither waits.
            drop(both.run(client.mutex("b").try_lock()).await.unwrap().unwrap().unwrap());
            // More than one of them has, of which none else has the rest.
            let more = client.multi_lock(["a", "c"]);
            drop(both.run(more.try_lock()).await.unwrap().unwrap().unwrap());
            both.release().await.unwrap();
        };
        soon(outer.run(inside)).await.unwrap();
        outer.release().await.unwrap();
    }
}

/// A hold that a lock over other kinds has: reads share there, too.
#[tokio::test(start_paused = true)]
async fn members_that_read_share() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = MultiLock::of([MultiMember::read(&lock), client.mutex("m").into()]);
    let outer = outer.lock().await.unwrap();
    let inside = async {
        let one = lock.read().await.unwrap();
        drop(lock.try_read().await.unwrap().expect("reads share"));
        let mutex = client.mutex("m").lock().await.unwrap();
        assert!(client.mutex("m").try_lock().await.unwrap().is_none(), "two have m");
        drop((one, mutex));
    };
    soon(outer.run(inside)).await.unwrap();
}

async fn reentry(client: &LockClient) -> LockGuard {
    client.mutex("m").lock().await.unwrap()
}

/// S-34: a turn is kept for a second for a future that is not polled; it then lines up again.
#[tokio::test(start_paused = true)]
async fn a_re_entry_that_is_not_polled_is_passed_over() {
    let client = LockClient::in_memory();
    let outer = reentry(&client).await;
    let inside = async {
        let first = reentry(&client).await;
        let (mut asleep, mut next) = (pin!(reentry(&client)), pin!(reentry(&client)));
        assert!(poll!(&mut asleep).is_pending() && poll!(&mut next).is_pending());
        // Long after it lined up: what counts is the time since its turn has come.
        let _ = timeout(TURN * 3, &mut next).await;
        first.release().await.unwrap();
        let released = Instant::now();
        let next = timeout(TURN * 2, next).await.expect("it waits for a future that is not polled");
        assert!(released.elapsed() <= TURN, "{:?}", released.elapsed());
        let early = Duration::from_millis(900);
        assert!(released.elapsed() >= early, "the turn was over after {:?}", released.elapsed());
        assert!(poll!(&mut asleep).is_pending(), "two are inside");
        next.release().await.unwrap();
        asleep.await.release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

/// A waiter whose turn has come takes it whenever it is polled within that second.
#[tokio::test(start_paused = true)]
async fn a_turn_is_kept_for_a_moment() {
    let client = LockClient::in_memory();
    let outer = reentry(&client).await;
    let inside = async {
        let first = reentry(&client).await;
        let (mut slow, mut next) = (pin!(reentry(&client)), pin!(reentry(&client)));
        assert!(poll!(&mut slow).is_pending() && poll!(&mut next).is_pending());
        first.release().await.unwrap();
        assert!(timeout(TURN / 2, &mut next).await.is_err(), "it overtook");
        slow.await.release().await.unwrap();
        next.await.release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-18, S-20: the line is bounded, and a shutdown ends it.
#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_and_ends_with_the_client() {
    let client = LockClient::in_memory();
    let bounded = LockOptions::builder().max_waiters(1).build().unwrap();
    let lock = client.mutex("m").with(bounded);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let mut second = pin!(lock.lock());
        assert!(poll!(&mut second).is_pending());
        let third = lock.lock().await;
        assert!(
            matches!(third, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. })),
            "{third:?}"
        );
        let (second, _) = tokio::join!(second, client.shutdown(Duration::from_millis(10)));
        assert!(matches!(second, Err(LockError::Closed)), "{second:?}");
        drop(first);
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-6: a longer lease is asked for when the turn has come, once.
#[tokio::test(start_paused = true)]
async fn a_re_entry_extends_when_its_turn_has_come() {
    let client = LockClient::in_memory();
    let fixed = |secs| {
        let lease = Lease::Fixed(Duration::from_secs(secs));
        client.mutex("m").with(LockOptions::builder().lease(lease).build().unwrap())
    };
    let outer = fixed(2).lock().await.unwrap();
    let inside = async {
        let first = fixed(2).lock().await.unwrap();
        let longer = fixed(10);
        let mut second = pin!(longer.lock());
        assert!(poll!(&mut second).is_pending());
        assert!(outer.remaining() < Duration::from_secs(2), "extended before its turn");
        first.release().await.unwrap();
        let second = second.await.unwrap();
        assert!(second.remaining() > Duration::from_secs(8), "{:?}", second.remaining());
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-6: permits are counted instead; each call has its own.
#[tokio::test(start_paused = true)]
async fn permits_are_counted() {
    let client = LockClient::in_memory();
    let permits = client.semaphore("p", 3.try_into().unwrap());
    let outer: LockGuard = permits.acquire().await.unwrap().into();
    let both = async { tokio::join!(permits.acquire(), permits.acquire()) };
    let (one, two) = soon(outer.run(both)).await.unwrap();
    assert!(one.is_ok() && two.is_ok());
}

#[distributed_lock(key = "trial", policy = "trial", client = client)]
async fn not_enforced(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

/// A call that is not enforced waits for no sibling.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_enforced_is_not_held_up() {
    let text = "[lock.policies]\ntrial = { enforce = 0 }";
    let config = LockConfig::from_deserializer(toml::Deserializer::parse(text).unwrap()).unwrap();
    let client = LockClient::builder().config(config).in_memory().unwrap();
    let lock = client.any_lock(DeclaredKind::Mutex, ["trial"]);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let start = Instant::now();
        assert!(lock.look().await.unwrap_err().is_busy());
        not_enforced(&client).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        first.release().await.unwrap();
        lock.look().await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}
