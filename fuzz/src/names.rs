//! Lock names, the keys that belong to them, and values in names.

use std::collections::BTreeSet;

use lock_runtime::fuzz::{self, Wire};
use lock_runtime::key::MAX_KEY_BYTES;
use lock_runtime::{LockError, LockKey};
use lock_syntax::name::reserved;

use crate::input::{parts, text};

/// Pieces of names.
const WORDS: &[&str] = &[
    "{",
    "}",
    "{}",
    "{x}",
    ":",
    "redisson_lock_token:",
    "redisson_lock_queue:",
    "redisson_lock_timeout:",
    "redisson_lock__channel:",
    "redisson_unlock_latch:",
    "redisson_rwlock:",
    "redisson_rwlock_writers:",
    "redisson_rwlock_readers:",
    "redisson_rwlock_due_readers:",
    "redisson_sc:",
    "redisson_countdownlatch__channel:",
    "redisson_countdownlatch__channel__",
    ":timeout",
    ":rwlock_timeout:",
    ":rwlock_timeout:1",
    "3b241101-e2bb-4255-8caf-4136c566a962:7",
    "\0",
    "\n",
    "\u{85}",
    "ü",
    "x",
    " ",
    "%",
];

fn check(name: &str) -> Option<(LockKey, Wire)> {
    let key = LockKey::new(name).ok()?;
    let wire = fuzz::wire(&key);
    assert_eq!(key.as_str(), name);
    assert!((1..=MAX_KEY_BYTES).contains(&name.len()), "{name:?}");
    assert!(!name.chars().any(char::is_control), "{name:?}");
    assert!(reserved(name).is_none(), "{name:?}");
    for companion in &wire.keys[1..] {
        assert!(LockKey::new(companion).is_err(), "{companion:?} of {name:?} is a name");
        assert_eq!(fuzz::slot(companion), fuzz::slot(name), "{companion:?} of {name:?}");
    }
    for channel in &wire.channels {
        assert!(LockKey::new(channel).is_err(), "the channel {channel:?} of {name:?} is a name");
    }
    let distinct: BTreeSet<_> = wire.keys.iter().collect();
    assert_eq!(distinct.len(), wire.keys.len(), "{wire:?}");
    Some((key, wire))
}

/// Locks of different names share no key and no channel, and no name is a key of another lock.
pub fn lock_names(input: &[u8]) {
    let [one, other] = parts(input).map(|part| text(part, WORDS));
    let (Some((one, its)), Some((other, others))) = (check(&one), check(&other)) else { return };
    // As for Redisson, whose keys these are: `x` has its keys beside it in `{x}`, and so has `{x}`.
    let tagged = |name: &LockKey| format!("{{{name}}}");
    if one == other || tagged(&one) == other.as_str() || tagged(&other) == one.as_str() {
        return;
    }
    for (its, others) in [(&its.keys, &others.keys), (&its.channels, &others.channels)] {
        let shared = its.iter().find(|it| others.contains(it));
        assert_eq!(shared, None, "of {one:?} and {other:?}");
    }
}

fn name_of(first: &str, second: &str) -> Result<LockKey, LockError> {
    LockKey::builder().text("k:").part(first).text(":").part(second).build()
}

/// Different values make different names, which contain nothing that a name is structured by; an escape can be
/// undone.
pub fn key_parts(input: &[u8]) {
    let words: &[&str] = &[
        "%",
        "%3A",
        "%7E",
        "%~",
        ":",
        "{",
        "}",
        "*",
        "?",
        "[",
        "]",
        "\\",
        " ",
        "\n",
        "\0",
        "\u{a0}",
        "ü",
        "a",
        "0123456789abcdef0123456789abcdef",
        "%~0123456789abcdef0123456789abcdef",
    ];
    let values = parts::<4>(input).map(|part| text(part, words));
    let [a, b, c, d] = &values;
    let names = [name_of(a, b), name_of(c, d)];
    for (name, (first, second)) in names.iter().zip([(a, b), (c, d)]) {
        let is_empty = first.is_empty() || second.is_empty();
        assert_eq!(name.is_err(), is_empty, "{first:?} {second:?}");
        let Ok(name) = name else { continue };
        let fields: Vec<_> = name.as_str().split(':').collect();
        assert_eq!(fields.len(), 3, "{name:?}");
        assert!(!name.as_str().contains(['{', '}', '*', '?', '[', ']', '\\']), "{name:?}");
        assert!(!name.as_str().contains(char::is_whitespace), "{name:?}");
        for (field, value) in fields[1..].iter().zip([first, second]) {
            let back = percent_encoding::percent_decode_str(field).decode_utf8();
            let is_shortened = field.contains("%~");
            assert!(is_shortened || back.as_deref() == Ok(value), "{field:?} of {value:?}");
        }
    }
    if let [Ok(one), Ok(other)] = &names {
        assert_eq!(one == other, (a, b) == (c, d), "{values:?}");
    }
    // The same text, cut elsewhere, is another pair.
    let whole = [a.as_str(), b.as_str()].concat();
    let Ok(name) = name_of(a, b) else { return };
    for (cut, _) in whole.char_indices().take(64) {
        let (first, second) = whole.split_at(cut);
        assert!(
            first == a || name_of(first, second).ok() != Some(name.clone()),
            "{whole:?} at {cut}"
        );
    }
}
