//! Every documented name and word is emitted, and nothing else.

use lock_runtime::observe::names::{AcquireOutcome, ReleaseOutcome, RenewOutcome};
use lock_runtime::observe::{self, METRICS, MetricKind, SPAN_ACQUIRE};

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;
use crate::observe::tracer::{Spanned, Tracer};

/// Outcomes that need a store which fails, or replicas that do not answer.
const OF_FAILURES: [&str; 3] = ["failed", "not_replicated", "unanswered"];

fn words<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> BTreeSet<String> {
    all.iter().map(|each| word(*each).to_owned()).collect()
}

fn all_outcomes() -> BTreeSet<String> {
    words(AcquireOutcome::ALL, AcquireOutcome::as_str)
}

/// Names, labels and policies are as documented.
fn check_names(seen: &Kept) {
    let names = seen.names();
    for metric in METRICS {
        let labels: BTreeSet<_> = metric.labels.iter().map(|&label| label.to_owned()).collect();
        let labels = BTreeSet::from([labels.into_iter().collect::<Vec<_>>()]);
        assert_eq!(names.get(metric.name), Some(&labels), "{}", metric.name);
        let policies = seen.values(metric.name, "policy");
        let known = ["none", "checkout", "tenant", "trial"].map(str::to_owned);
        assert!(policies.is_subset(&BTreeSet::from(known)), "{} has {policies:?}", metric.name);
    }
    assert_eq!(names.len(), METRICS.len(), "{names:?}");
}

/// §3.4, in memory: whatever comes of an acquire is counted once, under its policy and kind, and ends its span.
#[tokio::test]
async fn each_acquire_has_its_outcome() {
    let (seen, _here) = Kept::here();
    let tracer = Tracer::default();
    let _also = tracer.install();
    let pair = memory();
    acquires(&pair, &seen, "x").await;
    taken_away(&pair.client, &seen).await;
    pair.client.shutdown(SOON).await;
    pair.client.mutex("x").lock().await.unwrap_err();
    // One that is through, whoever keeps its future.
    let mut through = Box::pin(pair.other.mutex("y").lock());
    through.as_mut().await.unwrap().release().await.unwrap();

    let mut expected = all_outcomes();
    expected.retain(|outcome| !OF_FAILURES.contains(&outcome.as_str()));
    assert_eq!(seen.values("lock_acquire_total", "outcome"), expected);
    check_names(&seen);
    let acquired = |policy, kind, number| {
        let labels = [("policy", policy), ("kind", kind), ("outcome", "acquired")];
        assert!(seen.is("lock_acquire_total", &labels, number), "{policy} {kind}: {}", seen.text());
    };
    acquired("checkout", "mutex", 1);
    acquired("tenant", "fair", 1);
    for kind in ["read", "semaphore", "multi", "latch"] {
        acquired("none", kind, 1);
    }
    for outcome in expected.iter().filter(|it| *it != "acquired") {
        let labels = [("outcome", outcome.as_str())];
        assert!(seen.is("lock_acquire_total", &labels, 1), "{outcome}: {}", seen.text());
    }
    for (name, labels, number) in [
        ("lock_acquire_total", &[("policy", "trial"), ("outcome", "not_enforced")][..], 1),
        ("lock_handoff_total", &[], 1),
        ("lock_lost_total", &[("cause", "deadline")], 1),
        ("lock_lost_total", &[("cause", "not_owner")], 2),
        ("lock_release_total", &[("outcome", "lost")], 3),
    ] {
        assert!(seen.is(name, labels, number), "{name} {labels:?}: {}", seen.text());
    }
    // As often as something ended that was timed.
    let timed = seen.samples("lock_wait_seconds", &[]).len();
    let untimed = ["reentered", "lost", "would_deadlock", "closed"].len();
    let counted = seen.sum("lock_acquire_total", &[]) as usize;
    assert_eq!(timed, counted - untimed);
    let ended = seen.sum("lock_release_total", &[]) + seen.sum("lock_handoff_total", &[]);
    assert_eq!(seen.samples("lock_hold_seconds", &[]).len(), ended as usize);
    let timeout = seen.samples("lock_wait_seconds", &[("outcome", "timeout")]);
    assert!(timeout[0] >= 0.03 && timeout[0] < 5.0, "{timeout:?} is not in seconds");
    seen.assert_idle();

    let spans = tracer.spans(SPAN_ACQUIRE);
    assert!(spans.iter().all(Spanned::is_closed) && spans.len() == counted, "{spans:?}");
    for outcome in &expected {
        let number = spans.iter().filter(|span| span.field("lock.outcome") == outcome).count();
        let counted = seen.sum("lock_acquire_total", &[("outcome", outcome)]);
        assert_eq!(number, counted as usize, "{outcome}");
    }
}

/// §3.4, on Redis, a server that stops and one without replicas included: every word there is.
#[tokio::test]
async fn every_word_is_emitted() {
    let (seen, _here) = Kept::here();
    let server = RedisServer::start().await;
    let pair = redis(&server).await;
    acquires(&pair, &seen, "x").await;
    taken_away(&pair.client, &seen).await;
    let one = LockOptions::new().replicas(Replicas::new(1, ms(20))).wait(ms(50));
    pair.client.mutex("replicated").with(one).lock().await.unwrap_err();
    // A hold to renew, one to give up on.
    let renewed = pair.client.mutex("renewed").with(watched(ms(900))).lock().await.unwrap();
    let dropped = pair.client.mutex("dropped").with(fixed(ms(200))).lock().await.unwrap();
    server.pause();
    drop(dropped);
    pair.client.mutex("away").try_lock().await.unwrap_err();
    try_out(&pair.client, 2).await.unwrap();
    assert!(renewed.lost().await.is_lost());
    let given_up = [("outcome", "failed")];
    soon!("the release is given up", seen.is("lock_release_total", &given_up, 1));
    server.resume();
    drop(renewed);
    pair.client.shutdown(SOON).await;
    pair.client.mutex("x").lock().await.unwrap_err();

    check_names(&seen);
    assert_eq!(seen.values("lock_acquire_total", "outcome"), all_outcomes());
    let renewals = words(RenewOutcome::ALL, RenewOutcome::as_str);
    assert_eq!(seen.values("lock_renew_total", "outcome"), renewals);
    let releases = words(ReleaseOutcome::ALL, ReleaseOutcome::as_str);
    assert_eq!(seen.values("lock_release_total", "outcome"), releases);
    assert_eq!(seen.values("lock_lost_total", "cause").len(), 2);
    seen.assert_idle();
}

/// A recorder is told what each name is, and in what unit.
#[test]
fn every_name_is_described() {
    let seen = Kept::default();
    metrics::with_local_recorder(&seen, observe::describe);
    let described = seen.described();
    assert_eq!(described.len(), METRICS.len());
    for metric in METRICS {
        let (kind, unit, help) = &described[metric.name];
        let expected = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            _ => "histogram",
        };
        assert_eq!((*kind, help.as_str()), (expected, metric.help));
        let seconds = metric.name.ends_with("_seconds");
        assert_eq!(unit.as_ref().unwrap().as_str(), if seconds { "seconds" } else { "count" });
        assert_eq!(metric.name.ends_with("_total"), *kind == "counter");
    }
}
