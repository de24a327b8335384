//! The metric and the span.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lock_runtime::LockClient;
use lock_sqlx::{FENCE_TOTAL, Fence};
use lock_tests::{Log, eventually};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::*;

/// Counters, by the value of their only label.
#[derive(Default)]
struct Counted(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counted {
    fn values(&self) -> Vec<(String, u64)> {
        let counters = self.0.lock().unwrap();
        let value = |(name, counter): (&String, &Arc<AtomicU64>)| {
            (name.clone(), counter.load(Ordering::Relaxed))
        };
        counters.iter().map(value).collect()
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        // lock-runtime has counters of its own.
        if key.name() != FENCE_TOTAL {
            return Counter::noop();
        }
        let labels: Vec<_> = key.labels().collect();
        let [label] = labels[..] else { panic!("{key}") };
        assert_eq!(label.key(), "outcome");
        let mut counters = self.0.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(label.value().to_owned()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn each_fence_is_counted_by_its_outcome_and_has_a_span() {
    let (log, counted) = (Log::start(), Counted::default());
    let _here = metrics::set_default_local_recorder(&counted);
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let (late, next) = late_and_next(&locks, "job \"7\"").await;
    let mut tx = database.begin().await;
    next.fence(&mut tx).await.unwrap();
    assert_eq!(
        counted.values(),
        [("failed", 0), ("fenced", 1), ("not_exclusive", 0), ("stale", 0)]
            .map(|(outcome, number)| (outcome.to_owned(), number))
    );
    late.fence(&mut tx).await.unwrap_err();
    let reader = locks.rw_lock("prices").read().await.unwrap();
    reader.fence(&mut tx).await.unwrap_err();
    drop(tx);
    let both = locks.multi_lock(["a", "b"]).lock().await.unwrap();
    sqlx::raw_sql("DROP TABLE lock_fences").execute(&database.pool).await.unwrap();
    both.fence(&mut database.begin().await).await.unwrap_err();
    assert_eq!(
        counted.values(),
        ["failed", "fenced", "not_exclusive", "stale"].map(|outcome| (outcome.to_owned(), 1))
    );

    // The thread of SQLite has its own part in a span, which may end after the call, and after the next one.
    let ends = || -> Vec<_> {
        log.lines_with("lock.fence").into_iter().filter(|it| it.contains("close")).collect()
    };
    let fields = [
        format!(r#"lock.name="job \"7\"" lock.token={} lock.outcome="fenced""#, next.token()),
        format!(r#"lock.name="job \"7\"" lock.token={} lock.outcome="stale""#, late.token()),
        r#"lock.name="prices" lock.outcome="not_exclusive""#.to_owned(),
        format!(r#"lock.name="a", "b" lock.token={} lock.outcome="failed""#, both.token()),
    ];
    eventually(BOUND, "each span ends", async || ends().len() >= fields.len()).await;
    let ends = ends();
    assert_eq!(ends.len(), fields.len(), "{ends:#?}");
    for fields in fields {
        let end = ends.iter().find(|end| end.contains(&fields));
        let end = end.unwrap_or_else(|| panic!("no span has {fields}: {ends:#?}"));
        assert!(end.contains("DEBUG") && end.contains("lock_sqlx"), "{end}");
    }
}
