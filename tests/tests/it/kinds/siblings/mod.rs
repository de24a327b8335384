//! Calls side by side inside one hold (S-6): they exclude each other as they would outside, in order;
//! reads share, and what is nested in one of them does not wait.
#![allow(clippy::async_yields_async, reason = "what inherits starts when a test polls it")]

mod kinds;
mod turns;

use lock_runtime::scope;
use tokio::sync::oneshot;

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

#[distributed_lock(key = "sum", client = client)]
async fn add_twice(client: &LockClient, sum: &Sum) -> Result<(), LockError> {
    let (one, two) = tokio::join!(add(client, sum), add(client, sum));
    one.and(two)
}

async fn soon<T>(inside: impl Future<Output = T>) -> T {
    timeout(SOON, inside).await.expect("they wait for ever")
}

/// Runs `inside` within a hold of the mutex `m`, in time.
async fn inside_of<T>(client: &LockClient, inside: impl Future<Output = T>) -> T {
    let outer = client.mutex("m").lock().await.unwrap();
    soon(outer.run(inside)).await.unwrap()
}

/// Lets everything that has been woken run.
async fn settle() {
    sleep(ms(1)).await;
}

/// Called by an annotated function, under a common guard, and in tasks that inherit it.
#[tokio::test(start_paused = true)]
async fn annotated_functions_side_by_side() {
    let (client, sum) = (LockClient::in_memory(), Sum::default());
    let calls = join_all((0..4).map(|_| add_twice(&client, &sum)));
    soon(calls).await.into_iter().collect::<Result<(), _>>().unwrap();
    assert_eq!(sum.get(), 8, "an update was lost");
    let guard = client.mutex("sum").lock().await.unwrap();
    let inside = async {
        let task = || {
            let (client, sum) = (client.clone(), sum.clone());
            lock_tests::spawn(scope::inherit(async move { add(&client, &sum).await }))
        };
        tokio::join!(add(&client, &sum), add(&client, &sum), task(), task())
    };
    let (one, two, three, four) = soon(guard.run(inside)).await.unwrap();
    one.and(two).and(three.unwrap()).and(four.unwrap()).unwrap();
    assert_eq!(sum.get(), 12, "an update was lost");
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
    let generic = generic.layer(service_fn(async |()| {
        sum.add().await;
        Ok::<_, Infallible>(())
    }));
    let guard = client.mutex("sum").lock().await.unwrap();
    let both = async { tokio::join!(service.oneshot(request()), generic.oneshot(())) };
    let (one, two) = soon(guard.run(both)).await.unwrap();
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(sum.get(), 5, "an update was lost beside another handler");
}

#[tokio::test(start_paused = true)]
async fn what_outlives_a_re_entry_keeps_its_siblings_out() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let inside = async {
        let one = lock.lock().await.unwrap();
        let nested = one.run(async {
            let lock = lock.clone();
            lock_tests::spawn(scope::inherit(async move { lock.lock().await }))
                .await
                .unwrap()
                .unwrap()
        });
        let nested = nested.await.unwrap();
        one.release().await.unwrap();
        let mut two = pin!(lock.lock());
        assert!(poll!(&mut two).is_pending(), "what is nested is still inside");
        nested.release().await.unwrap();
        two.await.unwrap().release().await.unwrap();
    };
    inside_of(&client, inside).await;
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_waits_for_nothing_that_it_was_taken_in() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let inside = async {
        let one = lock.lock().await.unwrap();
        let two = one.run(lock.lock()).await.unwrap().unwrap();
        let three = two.run(lock.lock()).await.unwrap().unwrap();
        three.release().await.unwrap();
        // Also one whose own place is gone.
        let three = two.run(lock.lock()).await.unwrap().unwrap();
        two.release().await.unwrap();
        three.run(lock.lock()).await.unwrap().unwrap().release().await.unwrap();
        // The code inside of a guard may run the guard around it: it is inside of both.
        let four = three.run(one.run(lock.lock())).await.unwrap().unwrap().unwrap();
        four.release().await.unwrap();
        assert!(lock.try_lock().await.unwrap().is_none(), "two are inside");
    };
    inside_of(&client, inside).await;
}

/// A task whose re-entry is gone is beside those that come now.
#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_its_re_entry_is_beside_the_others() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let inside = async {
        let one = lock.lock().await.unwrap();
        let (go, told) = oneshot::channel::<()>();
        let mut late = None;
        one.run(async {
            let lock = lock.clone();
            late = Some(lock_tests::spawn(scope::inherit(async move {
                told.await.unwrap();
                lock.lock().await.unwrap().release().await
            })));
        })
        .await
        .unwrap();
        let late = late.unwrap();
        one.release().await.unwrap();
        let two = lock.lock().await.unwrap();
        go.send(()).unwrap();
        settle().await;
        assert!(!late.is_finished(), "it went in beside its sibling");
        two.release().await.unwrap();
        late.await.unwrap().unwrap();
    };
    inside_of(&client, inside).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_outlives_the_hold() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let one = lock.lock().await.unwrap();
        let lock = lock.clone();
        let waiter = lock_tests::spawn(scope::inherit(async move { lock.lock().await }));
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

/// A hold that is handed on in this process is another caller's: a task that was inside of it is outside now.
#[tokio::test(start_paused = true)]
async fn a_task_does_not_follow_a_hold_that_is_handed_on() {
    let client = LockClient::in_memory();
    let lock = client.mutex("m");
    let wait = || {
        let lock = lock.clone();
        lock_tests::spawn(async move { lock.lock().await.unwrap() })
    };
    // The second holder has tokens for those that wait behind it.
    let (first, second, third) = (lock.lock().await.unwrap(), wait(), wait());
    settle().await;
    first.release().await.unwrap();
    let second = soon(second).await.unwrap();
    let (go, told) = oneshot::channel::<()>();
    let mut task = None;
    let spawn = async {
        let lock = lock.clone();
        task = Some(lock_tests::spawn(scope::inherit(async move {
            told.await.unwrap();
            lock.try_lock().await.unwrap().is_some()
        })));
    };
    second.run(spawn).await.unwrap();
    let token = second.token();
    second.release().await.unwrap();
    let third = soon(third).await.unwrap();
    assert_eq!(third.token().get(), token.get() + 1, "not handed on");
    go.send(()).unwrap();
    assert!(!soon(task.unwrap()).await.unwrap(), "two are inside");
    third.release().await.unwrap();
}

#[distributed_lock(key = "trial", policy = "trial", client = client)]
async fn not_enforced(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_enforced_is_not_held_up() {
    let text = "[lock.policies]\ntrial = { enforce = false }";
    let config = LockConfig::from_deserializer(toml::Deserializer::parse(text).unwrap()).unwrap();
    let client = LockClient::builder().config(config).in_memory().unwrap();
    let lock = client.any_lock(LockKind::Mutex, ["trial"]);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let start = Instant::now();
        assert!(lock.shadow_lock().await.unwrap_err().is_busy());
        not_enforced(&client).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        first.release().await.unwrap();
        lock.shadow_lock().await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}
