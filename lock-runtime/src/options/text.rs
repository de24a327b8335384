//! The text of durations in messages.

use std::time::Duration;

/// Returns the text of a duration as a configuration has it: `"24h"`, `"1m 30s"`, `"250ms"`, `"30days"`.
pub(crate) fn duration_text(duration: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let (seconds, nanos) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    if nanos == 0 && seconds >= 2 * DAY && seconds % DAY == 0 {
        return format!("{}days", seconds / DAY);
    }
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (nanos / 1_000_000, "ms"),
        (nanos / 1_000 % 1_000, "us"),
        (nanos % 1_000, "ns"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<_> = parts.map(|(number, unit)| format!("{number}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_users_write_it() {
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(100), "100ms"),
            (Duration::from_secs(90), "1m 30s"),
            (Duration::from_secs(86_400), "24h"),
            (Duration::from_millis(86_400_001), "24h 1ms"),
            (Duration::from_secs(25 * 3600), "25h"),
            (Duration::from_secs(30 * 86_400), "30days"),
            (Duration::from_nanos(1_002_003), "1ms 2us 3ns"),
        ] {
            assert_eq!(duration_text(duration), text);
        }
    }
}
