//! A counter is there, at zero, before it counts: `increase()` does not see a first sample of 1.

use lock_runtime::observe::names::AcquireOutcome;
use lock_runtime::observe::{METRICS, MetricKind};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::observe::scenario::*;
use crate::support::kinds::take_one_or_several;

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

/// `increase(lock_lost_total[5m]) > 0` sees the first loss: the series was scraped at zero before it. A program may take its
/// first lock before it installs its recorder.
#[tokio::test(start_paused = true)]
async fn the_first_loss_is_an_increase() {
    let client = builder().in_memory().unwrap();
    drop(client.mutex("a").lock().await.unwrap());
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    for (policy, lock) in [
        ("none", client.any_lock(LockKind::Mutex, ["a"])),
        ("checkout", client.policy_lock("checkout", ["b"])),
    ] {
        assert_eq!(losses(&recorder, policy), None, "not used yet");
        let guard = lock.with(fixed(ms(300))).lock().await.unwrap();
        assert_eq!(losses(&recorder, policy), Some(0.0));
        assert!(guard.lost().await.is_lost());
        assert_eq!(losses(&recorder, policy), Some(1.0));
        for outcome in AcquireOutcome::ALL {
            let labels = [("policy", policy), ("kind", "mutex"), ("outcome", outcome.as_str())];
            let counted = f64::from(u8::from(*outcome == AcquireOutcome::Acquired));
            assert_eq!(scraped(&recorder, "lock_acquire_total", &labels), Some(counted));
        }
    }
}

/// Every counter and gauge of a policy and kind, from the first poll of the first acquire on.
#[tokio::test(start_paused = true)]
async fn every_series_of_a_kind_starts_at_zero() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let client = LockClient::in_memory();
    for kind in ["mutex", "fair", "read", "write", "semaphore", "multi"] {
        drop(take_one_or_several(&client, kind, kind, LockOptions::default()).await.unwrap());
        for metric in METRICS.iter().filter(|metric| metric.kind != MetricKind::Histogram) {
            // The last label of a metric, with each word that it has in every kind.
            let words: &[_] = match metric.labels {
                [_, _, "cause"] => &[("cause", "deadline"), ("cause", "not_owner")],
                [_, _, "outcome"] => &[("outcome", "failed")],
                _ => &[("", "")],
            };
            for word in words {
                let labels = [("policy", "none"), ("kind", kind), *word];
                let value = scraped(&recorder, metric.name, &labels[..metric.labels.len()]);
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
