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
        ("enforce", "true".to_owned()),
        ("kind", quoted("mutex")),
        ("lease", quoted(&lease)),
        ("max_waiters", format!("{}, in HTTP layers 1024", options.max_waiters)),
        ("on_lost", quoted(&on_lost)),
        ("on_release_lost", quoted(&on_release_lost)),
        ("release_timeout", quoted(&seconds(options.release_timeout))),
        ("wait", format!("{}, in HTTP layers \"10s\"", quoted(&wait))),
    ]
}

/// Each setting of HTTP layers, as a file would write it. `docs/configuration.md` has the same.
pub(super) fn http() -> Vec<(&'static str, String)> {
    let settings = [
        ("http.busy", "409, and 503 after a wait"),
        ("http.hold", "\"auto\""),
        ("http.max_body_hold", "\"30s\""),
        ("http.methods", "\"all but GET, HEAD, OPTIONS, TRACE\""),
        ("http.on_disconnect", "\"cancel\""),
        ("http.on_missing", "\"reject\""),
        ("http.release_timeout", "\"250ms\""),
        ("http.safe_methods", "\"none\""),
    ];
    settings.map(|(field, value)| (field, value.to_owned())).into()
}
