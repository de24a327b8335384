//! Calls side by side inside one hold (S-6): they exclude each other as they would outside, in order;
//! reads share, and what is nested in one of them does not wait.
#![allow(clippy::async_yields_async, reason = "what inherits starts when a test polls it")]

mod kinds;

use lock_runtime::scope;

use crate::prelude::*;
use crate::tower::http::*;

/// Reads, waits and writes: two at once lose an update.
#[derive(Default, Clone)]
struct Sum(Arc<AtomicU32>);

impl Sum {
    async fn add(&self) {
        let before = self.get();
        sleep(ms(5)).await;
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

async fn soon<T>(inside: impl Future<Output = T>) -> T {
    timeout(SOON, inside).await.expect("they wait for ever")
}

#[tokio::test(start_paused = true)]
async fn calls_and_handlers_under_layers() {
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
    let http = LockLayer::http().key("sum").client(client.clone()).build().unwrap().layer(handler);
    let generic = LockLayer::new(client.clone(), |_: &Sum| Ok(Some(LockKey::new("sum")?)));
    let generic = generic.layer(service_fn(|sum: Sum| async move {
        sum.add().await;
        Ok::<_, Infallible>(())
    }));
    // Handlers of both layers, side by side in one hold, and the calls of one.
    let guard = client.mutex("sum").lock().await.unwrap();
    let request = Request::post("/").body(Full::default()).unwrap();
    let both = async { tokio::join!(http.oneshot(request), generic.oneshot(sum.clone())) };
    let (one, two) = soon(guard.run(both)).await.unwrap();
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(sum.get(), 3, "an update was lost");
}

#[tokio::test(start_paused = true)]
async fn what_outlives_a_re_entry_keeps_its_siblings_out() {
    let lock = LockClient::in_memory().mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let task = one.run(async { lock_tests::spawn(scope::inherit(lock.lock())) });
        let nested = task.await.unwrap().await.unwrap().unwrap();
        one.release().await.unwrap();
        let mut two = pin!(lock.lock());
        assert!(poll!(&mut two).is_pending(), "what is nested is still inside");
        nested.release().await.unwrap();
        two.await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

/// A task whose re-entry is gone is beside those that come now.
#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_its_re_entry_is_beside_the_others() {
    let lock = LockClient::in_memory().mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        // Starts when it is polled.
        let mut late = pin!(one.run(async { scope::inherit(lock.lock()) }).await.unwrap());
        one.release().await.unwrap();
        let two = lock.lock().await.unwrap();
        assert!(poll!(&mut late).is_pending(), "it went in beside its sibling");
        two.release().await.unwrap();
        late.await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_outlives_the_hold() {
    let lock = LockClient::in_memory().mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let mut waiter = Box::pin(scope::inherit(lock.lock()));
        assert!(poll!(&mut waiter).is_pending());
        (one, waiter)
    };
    let (one, mut waiter) = outer.run(inside).await.unwrap();
    outer.release().await.unwrap();
    assert!(poll!(&mut waiter).is_pending(), "two are inside");
    one.release().await.unwrap();
    let guard = soon(waiter).await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    drop(lock.try_lock().await.unwrap().expect("it is free"));
}

/// A hold that is handed on in this process is another caller's: a task that was inside of it is outside now.
#[tokio::test(start_paused = true)]
async fn a_task_does_not_follow_a_hold_that_is_handed_on() {
    let lock = LockClient::in_memory().mutex("m");
    let first = lock.lock().await.unwrap();
    // The second holder has tokens for those that wait behind it.
    let (mut second, mut third) = (pin!(lock.lock()), pin!(lock.lock()));
    assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
    first.release().await.unwrap();
    let second = soon(second).await.unwrap();
    let task = second.run(async { scope::inherit(lock.try_lock()) }).await.unwrap();
    let token = second.token();
    second.release().await.unwrap();
    let third = soon(third).await.unwrap();
    assert_eq!(third.token().get(), token.get() + 1, "not handed on");
    assert!(task.await.unwrap().is_none(), "two are inside");
    third.release().await.unwrap();
}

/// S-18, S-20: the line is bounded, and a shutdown ends it.
#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_and_ends_with_the_client() {
    let client = LockClient::in_memory();
    let bounded = LockOptions::new().max_waiters(1);
    let lock = client.mutex("m").with(bounded);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let mut second = pin!(lock.lock());
        assert!(poll!(&mut second).is_pending());
        let third = lock.lock().await;
        let too_many =
            matches!(third, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. }));
        assert!(too_many, "{third:?}");
        let (second, _) = tokio::join!(second, client.shutdown(ms(10)));
        assert!(matches!(second, Err(LockError::Closed)), "{second:?}");
        drop(first);
    };
    soon(outer.run(inside)).await.unwrap();
}
