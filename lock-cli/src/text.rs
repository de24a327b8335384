//! Times and texts for people.

use std::fmt::Write;
use std::time::Duration;

/// A duration as people say it: `12 s`, `3 min 5 s`, and milliseconds below one second.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// The same, or a dash if it is not known.
pub(crate) fn time_or_dash(known: Option<Duration>) -> String {
    known.map_or_else(|| "-".to_owned(), time)
}

/// A text of another process, which cannot control the terminal, end a line, change its direction, or look like another text.
pub(crate) fn harmless(text: &str) -> String {
    let is_hidden = |c: char| matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_hidden(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The same, or a dash if there is none.
pub(crate) fn harmless_or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), harmless)
}

/// `1 client`, `2 clients`.
pub(crate) fn count(number: usize, one: &str) -> String {
    count_of(number, one, &format!("{one}s"))
}

/// `1 policy`, `2 policies`.
pub(crate) fn count_of(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let shown = [0, 999, 1_000, 59_999, 60_000, 3_725_000, 90_061_000];
        let shown = shown.map(|millis| time(Duration::from_millis(millis)));
        assert_eq!(shown, ["0 ms", "999 ms", "1 s", "59 s", "1 min 0 s", "1 h 2 min", "1 d 1 h"]);
    }

    #[test]
    fn a_text_cannot_control_the_terminal() {
        assert_eq!(harmless("a\u{1b}[31mb\nc\u{202e}d ä"), r"a\u{1b}[31mb\u{a}c\u{202e}d ä");
        assert_eq!(
            harmless("a\u{2028}b\u{200b}\u{feff}c\u{9b}1m"),
            r"a\u{2028}b\u{200b}\u{feff}c\u{9b}1m"
        );
    }
}
