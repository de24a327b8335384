//! The settings that a lock has where neither a file nor the program says anything.

use std::time::Duration;

use humantime::format_duration;
use lock_runtime::__layer_v1::in_effect;
use lock_runtime::{Lease, LockOptions, Wait};

/// Each setting, as a file would write it.
pub(super) fn settings() -> Vec<(&'static str, String)> {
    let options = in_effect(&LockOptions::default());
    let seconds = |time: Duration| format_duration(time).to_string();
    let wait = match options.wait {
        Wait::None => "none".to_owned(),
        Wait::UpTo(time) => seconds(time),
        Wait::Forever => "forever".to_owned(),
        other => format!("{other:?}"),
    };
    let lease = match options.lease {
        Lease::Watchdog(time) => format!("watchdog {}", seconds(time)),
        Lease::Fixed(time) => seconds(time),
        other => format!("{other:?}"),
    };
    // As their names in a file, in lower case.
    let on_lost = format!("{:?}", options.on_lost).to_lowercase();
    let on_release_lost = format!("{:?}", options.on_release_lost).to_lowercase();
    let quoted = |text: &str| format!("{text:?}");
    vec![
        ("kind", quoted("mutex")),
        ("lease", quoted(&lease)),
        ("on_lost", quoted(&on_lost)),
        ("on_release_lost", quoted(&on_release_lost)),
        ("wait", quoted(&wait)),
    ]
}
