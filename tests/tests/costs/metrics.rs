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

/// Rows of `trait: method(type) …`, each of which is a call.
macro_rules! counts {
    ($($kind:ident: $($method:ident($value:ty))*;)*) => {$(
        impl $kind for Calls {
            $(fn $method(&self, _: $value) {
                self.call();
            })*
        }
    )*};
}

counts! {
    CounterFn: increment(u64) absolute(u64);
    GaugeFn: increment(f64) decrement(f64) set(f64);
    HistogramFn: record(f64);
}

struct Cheap(Arc<Calls>);

/// Rows of `describe, register, type`: whatever is registered counts its calls.
macro_rules! recorder {
    ($($describe:ident, $register:ident, $kind:ident;)*) => {
        impl Recorder for Cheap {
            $(
                fn $describe(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

                fn $register(&self, _: &Key, _: &Metadata<'_>) -> $kind {
                    $kind::from_arc(Arc::clone(&self.0))
                }
            )*
        }
    };
}

recorder! {
    describe_counter, register_counter, Counter;
    describe_gauge, register_gauge, Gauge;
    describe_histogram, register_histogram, Histogram;
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
    let config = LockConfig::from_toml(text).unwrap();
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
