//! What counting allocates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_runtime::policy::LockConfig;
use lock_runtime::{AnyLock, LockClient, LockKind};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use super::{ALLOCATOR, alone};

/// Counts calls, and allocates nothing.
#[derive(Debug, Default)]
struct Calls(AtomicU64);

impl Calls {
    fn call(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl CounterFn for Calls {
    fn increment(&self, _: u64) {
        self.call();
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Calls {
    fn increment(&self, _: f64) {
        self.call();
    }

    fn decrement(&self, _: f64) {
        self.call();
    }

    fn set(&self, _: f64) {}
}

impl HistogramFn for Calls {
    fn record(&self, _: f64) {
        self.call();
    }
}

struct Cheap(Arc<Calls>);

impl Recorder for Cheap {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::clone(&self.0))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::clone(&self.0))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::clone(&self.0))
    }
}

const PAIRS: usize = 2_000;

/// Allocations of so many times lock, lock again inside, release both.
async fn pairs(lock: &AnyLock) -> usize {
    let before = ALLOCATOR.stats().allocations;
    for _ in 0..PAIRS {
        let guard = lock.lock().await.unwrap();
        let nested = guard.run(lock.lock()).await.unwrap().unwrap();
        nested.release().await.unwrap();
        guard.release().await.unwrap();
    }
    ALLOCATOR.stats().allocations - before
}

/// §3.4: labels are made once for each policy and kind; from then on, being seen allocates nothing.
#[tokio::test]
async fn counting_allocates_nothing() {
    let _alone = alone().await;
    let text = "[lock.policies.checkout]\nwait = '3s'";
    let config = LockConfig::from_deserializer(toml::Deserializer::parse(text).unwrap()).unwrap();
    let client = LockClient::builder().config(config).in_memory().unwrap();
    let plain = client.any_lock(LockKind::Mutex, ["a"]);
    let followed = client.policy_lock("checkout", ["a"]);
    pairs(&plain).await;
    let unseen = pairs(&plain).await;

    let calls = Arc::new(Calls::default());
    let recorder = Cheap(Arc::clone(&calls));
    let _here = metrics::set_default_local_recorder(&recorder);
    pairs(&followed).await;
    let before = calls.0.load(Ordering::Relaxed);
    let seen = pairs(&followed).await;
    let calls = calls.0.load(Ordering::Relaxed) - before;
    // Two acquires, a wait, a hold, its end and how long it lasted, a release.
    assert_eq!(calls as usize, PAIRS * 7);
    // What the background tasks allocate in between is a matter of chance.
    assert!(seen < unseen + PAIRS / 10, "{unseen} allocations grew to {seen}");
    assert!(unseen > PAIRS, "only {unseen} allocations counted: the test sees nothing");
}
