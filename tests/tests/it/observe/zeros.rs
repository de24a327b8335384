//! A counter is there, at zero, before it counts: `increase()` does not see a first sample of 1.

use lock_runtime::observe::names::AcquireOutcome;
use lock_runtime::observe::{METRICS, MetricKind};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::observe::scenario::*;

/// What Prometheus reads of this series; `None` if there is no such series.
fn scraped(recorder: &PrometheusRecorder, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let text = recorder.handle().render();
    let mut found = text.lines().filter(|line| {
        let has = |(label, value): &(&str, &str)| line.contains(&format!("{label}=\"{value}\""));
        line.starts_with(&format!("{name}{{")) && labels.iter().all(has)
    });
    let line = found.next()?;
    assert!(found.next().is_none(), "{name} {labels:?} is several series:\n{text}");
    Some(line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

fn losses(recorder: &PrometheusRecorder, policy: &str) -> Option<f64> {
    let labels = [("policy", policy), ("kind", "mutex"), ("cause", "deadline")];
    scraped(recorder, "lock_lost_total", &labels)
}

/// `increase(lock_lost_total[5m]) > 0` sees the first loss: the series was scraped at zero before it.
#[tokio::test(start_paused = true)]
async fn the_first_loss_is_an_increase() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let client = builder().in_memory().unwrap();
    let brief = fixed(ms(300));
    for (policy, lock) in [
        ("none", client.any_lock(lock_runtime::LockKind::Mutex, ["a"])),
        ("checkout", client.policy_lock("checkout", ["b"])),
    ] {
        assert_eq!(losses(&recorder, policy), None, "not used yet");
        let guard = lock.with(brief.clone()).lock().await.unwrap();
        assert_eq!(losses(&recorder, policy), Some(0.0));
        assert!(guard.lost().await.is_lost());
        assert_eq!(losses(&recorder, policy), Some(1.0));
    }
}

/// Every counter and gauge of a policy and kind, from the first poll of the first acquire on.
#[tokio::test(start_paused = true)]
async fn every_series_of_a_kind_starts_at_zero() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let client = LockClient::in_memory();
    drop(client.mutex("a").lock().await.unwrap());
    drop(client.fair_mutex("b").lock().await.unwrap());
    drop(client.rw_lock("c").read().await.unwrap());
    drop(client.rw_lock("d").write().await.unwrap());
    drop(client.semaphore("e", 1).acquire().await.unwrap());
    drop(client.multi_lock(["f", "g"]).lock().await.unwrap());
    for kind in ["mutex", "fair", "read", "write", "semaphore", "multi"] {
        for metric in METRICS.iter().filter(|metric| metric.kind != MetricKind::Histogram) {
            for word in words(metric.labels) {
                let labels = [("policy", "none"), ("kind", kind), word];
                let labels = &labels[..metric.labels.len()];
                let value = scraped(&recorder, metric.name, labels);
                assert!(value.is_some(), "there is no {} {labels:?}", metric.name);
            }
        }
    }
    // No task holds a latch, so nothing of it is lost, renewed or released.
    client.latch("h").reached().await.unwrap();
    let latch = [("kind", "latch"), ("outcome", "timeout")];
    assert_eq!(scraped(&recorder, "lock_acquire_total", &latch), Some(0.0));
    assert_eq!(scraped(&recorder, "lock_lost_total", &latch[..1]), None);
}

/// The last label of a metric, with each word that it has in every kind.
fn words(labels: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    match labels {
        [_, _, "cause"] => vec![("cause", "deadline"), ("cause", "not_owner")],
        [_, _, "outcome"] => vec![("outcome", "failed")],
        _ => vec![("", "")],
    }
}

/// A program may take its first lock before it installs its recorder.
#[tokio::test(start_paused = true)]
async fn a_recorder_that_comes_late_starts_at_zero() {
    let client = LockClient::in_memory();
    drop(client.mutex("a").lock().await.unwrap());
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    assert_eq!(losses(&recorder, "none"), None);
    drop(client.mutex("a").lock().await.unwrap());
    assert_eq!(losses(&recorder, "none"), Some(0.0));
    for outcome in AcquireOutcome::ALL {
        let labels = [("kind", "mutex"), ("outcome", outcome.as_str())];
        let counted = f64::from(u8::from(*outcome == AcquireOutcome::Acquired));
        assert_eq!(scraped(&recorder, "lock_acquire_total", &labels), Some(counted));
    }
}
