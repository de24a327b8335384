//! Every documented name and word is emitted, and nothing else.

use lock_runtime::observe::names::{AcquireOutcome, ReleaseOutcome, RenewOutcome};
use lock_runtime::observe::{self, METRICS, MetricKind};

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;

/// Outcomes that need a store which fails, or replicas that do not answer.
const OF_FAILURES: [&str; 3] = ["failed", "not_replicated", "unanswered"];

fn words<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> BTreeSet<String> {
    all.iter().map(|each| word(*each).to_owned()).collect()
}

fn all_outcomes() -> BTreeSet<String> {
    words(AcquireOutcome::ALL, AcquireOutcome::as_str)
}

pub(crate) async fn memory() -> Pair {
    let store = MemoryStore::new();
    let client = builder().store(store.clone()).unwrap();
    Pair { client, other: builder().store(store.peer()).unwrap() }
}

async fn redis(server: &RedisServer) -> Pair {
    let connect = async || builder().connect(&server.url()).await.unwrap();
    Pair { client: connect().await, other: connect().await }
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

/// §3.4, in memory: whatever comes of an acquire is counted once, under its policy and kind.
#[tokio::test]
async fn each_acquire_has_its_outcome() {
    let (seen, _here) = Kept::here();
    let pair = memory().await;
    acquires(&pair, &seen, "x").await;
    taken_away(&pair.client, &seen).await;
    pair.client.shutdown(SOON).await;
    pair.client.mutex("x").lock().await.unwrap_err();

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
    acquired("none", "read", 1);
    acquired("none", "semaphore", 1);
    acquired("none", "multi", 1);
    acquired("none", "latch", 1);
    for outcome in expected.iter().filter(|it| *it != "acquired") {
        let labels = [("outcome", outcome.as_str())];
        assert!(seen.is("lock_acquire_total", &labels, 1), "{outcome}: {}", seen.text());
    }
    let policy = [("policy", "trial"), ("outcome", "not_enforced")];
    assert!(seen.is("lock_acquire_total", &policy, 1));
    assert!(seen.is("lock_handoff_total", &[], 1));
    assert!(seen.is("lock_lost_total", &[("cause", "deadline")], 1));
    assert!(seen.is("lock_lost_total", &[("cause", "not_owner")], 2));
    assert!(seen.is("lock_release_total", &[("outcome", "lost")], 3));
    // As often as something ended that was timed.
    let timed = seen.samples("lock_wait_seconds", &[]).len();
    let untimed = ["reentered", "lost", "would_deadlock", "closed"].len();
    assert_eq!(timed, seen.sum("lock_acquire_total", &[]) as usize - untimed);
    let ended = seen.sum("lock_release_total", &[]) + seen.sum("lock_handoff_total", &[]);
    assert_eq!(seen.samples("lock_hold_seconds", &[]).len(), ended as usize);
    let timeout = seen.samples("lock_wait_seconds", &[("outcome", "timeout")]);
    assert!(timeout[0] >= 0.03 && timeout[0] < 5.0, "{timeout:?} is not in seconds");
    seen.assert_idle();
}

/// §3.4, on Redis, a server that stops and one without replicas included: every word there is.
#[tokio::test]
async fn every_word_is_emitted() {
    let (seen, _here) = Kept::here();
    let server = RedisServer::start().await;
    let pair = redis(&server).await;
    acquires(&pair, &seen, "x").await;
    taken_away(&pair.client, &seen).await;
    let one = LockOptions::new().replicas(Replicas::new(1, ms(20)));
    let one = one.wait(ms(50));
    pair.client.mutex("replicated").with(one).lock().await.unwrap_err();
    // A hold to renew, one to give up on.
    let short = watched(ms(900));
    let renewed = pair.client.mutex("renewed").with(short).lock().await.unwrap();
    let brief = fixed(ms(200));
    let dropped = pair.client.mutex("dropped").with(brief).lock().await.unwrap();
    server.pause();
    drop(dropped);
    pair.client.mutex("away").try_lock().await.unwrap_err();
    try_out(&pair.client, 2).await.unwrap();
    assert!(renewed.lost().await.is_lost());
    let failed = async || seen.is("lock_release_total", &[("outcome", "failed")], 1);
    eventually(SOON, "the release is given up", failed).await;
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
        let seconds = metric.name.ends_with("_seconds");
        assert_eq!(unit.as_ref().unwrap().as_str(), if seconds { "seconds" } else { "count" });
        let expected = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            _ => "histogram",
        };
        assert_eq!((*kind, help.as_str()), (expected, metric.help));
        assert_eq!(metric.name.ends_with("_total"), *kind == "counter");
    }
}
