//! A recorder that panics costs no lock.

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::observe::outcomes::memory;
use crate::observe::scenario::*;

/// Panics whenever something is to be recorded.
#[derive(Debug)]
struct Broken;

impl Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        panic!("{key} is not counted")
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("{key} is not changed")
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("{key} is not timed")
    }
}

/// Each waiter gets the lock, and the last one frees it: by a release, by a drop, and when a hold is lost.
#[tokio::test]
async fn a_recorder_that_panics_loses_no_lock() {
    let _here = metrics::set_default_local_recorder(&Broken);
    let pair = memory().await;
    for releases in [true, false] {
        let mutex = pair.client.mutex("a").wait(SOON);
        let first = mutex.lock().await.unwrap();
        let wait = async || {
            let guard = mutex.lock().await.unwrap();
            if releases {
                guard.release().await.unwrap();
            }
        };
        let release = async || {
            if releases { first.release().await.unwrap() } else { drop(first) }
        };
        // In this order: two wait when the first holder goes.
        tokio::join!(wait(), wait(), release());
        let other = pair.other.mutex("a").wait(SOON).lock().await.unwrap();
        other.release().await.unwrap();
    }
    let brief = pair.client.mutex("b").with(leased(Lease::Fixed(ms(100))));
    let lost = brief.lock().await.unwrap();
    assert!(lost.lost().await.is_lost());
    pair.other.mutex("b").wait(SOON).lock().await.unwrap().release().await.unwrap();
}
