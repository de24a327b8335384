//! The settings that a lock has where neither a file nor the program says anything.

use std::time::Duration;

use humantime::format_duration;
use lock_runtime::options::{OnLost, OnReleaseLost};
use lock_runtime::{Lease, LockOptions, Wait};

/// Each setting, as a file would write it.
pub(super) fn settings() -> Vec<(&'static str, String)> {
    let options = LockOptions::default();
    let seconds = |time: Duration| format_duration(time).to_string();
    let wait = match options.wait() {
        Wait::Never => "none".to_owned(),
        Wait::UpTo(time) => seconds(time),
        Wait::Forever => "forever".to_owned(),
    };
    let lease = match options.lease() {
        Lease::Watchdog(time) => format!("watchdog {}", seconds(time)),
        Lease::Fixed(time) => seconds(time),
    };
    let on_lost = match options.on_lost() {
        OnLost::Cancel => "cancel",
        OnLost::Finish => "finish",
    };
    let on_release_lost = match options.on_release_lost() {
        OnReleaseLost::Log => "log",
        OnReleaseLost::Error => "error",
    };
    let quoted = |text: &str| format!("{text:?}");
    vec![
        ("kind", quoted("mutex")),
        ("lease", quoted(&lease)),
        ("on_lost", quoted(on_lost)),
        ("on_release_lost", quoted(on_release_lost)),
        ("wait", quoted(&wait)),
    ]
}
