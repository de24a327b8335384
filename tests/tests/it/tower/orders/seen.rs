//! What the service shows of itself.

use crate::tower::orders::shop::{BOUND, Shop, get, money};
use crate::tower::prelude::*;

/// Locks of attributes and of layers are counted, and nothing is held when nothing runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_can_be_scraped() {
    let shop = Shop::open(&[]).await;
    let (status, metrics) = shop.send(0, get("/metrics")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(metrics.contains("orders_writes_refused_total 0"), "{metrics}");

    for order in 0..3 {
        assert_eq!(shop.send(0, money("pay", order, 10)).await.0, StatusCode::OK);
    }
    assert_eq!(shop.send(0, money("refund", 0, 1)).await.0, StatusCode::OK);
    let mut metrics = String::new();
    eventually(BOUND, "three payments and a refund are over", async || {
        metrics = shop.send(0, get("/metrics")).await.1;
        let all = ["payments", "refunds"].map(|policy| {
            sample(&metrics, "lock_held", policy, "") == Some(0.0)
                && sample(&metrics, "lock_waiting", policy, "").unwrap_or(0.0) == 0.0
        });
        all == [true; 2]
    })
    .await;
    let count = |policy, name, outcome| sample(&metrics, name, policy, outcome);
    assert_eq!(count("payments", "lock_acquire_total", "acquired"), Some(3.0), "{metrics}");
    assert_eq!(count("payments", "lock_release_total", "released"), Some(3.0), "{metrics}");
    assert_eq!(count("refunds", "lock_acquire_total", "acquired"), Some(1.0), "{metrics}");
    // A histogram, not a summary: it has buckets.
    assert!(metrics.contains("lock_hold_seconds_bucket{"), "{metrics}");
    assert!(!metrics.contains("shop:order"), "no name of a lock is a label: {metrics}");
}

/// The sample of a metric with this policy and, unless it is empty, this outcome.
fn sample(metrics: &str, name: &str, policy: &str, outcome: &str) -> Option<f64> {
    let policy = format!("policy=\"{policy}\"");
    let outcome = format!("outcome=\"{outcome}");
    let line = metrics.lines().find(|line| {
        line.starts_with(&format!("{name}{{"))
            && line.contains(&policy)
            && (outcome.ends_with("=\"") || line.contains(&format!("{outcome}\"")))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}
