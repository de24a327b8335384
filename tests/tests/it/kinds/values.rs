//! Names and fencing tokens as values of a program: text, numbers, JSON.
// S-1, S-2, S-23.

use std::collections::HashMap;

use lock_runtime::{FencingToken, LockError, LockKey};

#[test]
fn a_name_is_parsed_and_read_as_text() {
    let key: LockKey = "order:42".parse().unwrap();
    assert_eq!(key, LockKey::new("order:42").unwrap());
    let text: &str = key.as_ref();
    assert_eq!(
        (text, key.as_str(), key.to_string().as_str()),
        ("order:42", "order:42", "order:42")
    );
}

/// Parsing checks what every other way to make a name checks.
#[test]
fn text_that_is_no_name_is_not_parsed() {
    for text in ["", "a\nb", "a{}b", "redisson_lock_token:{a}", &"a".repeat(513)] {
        let error = text.parse::<LockKey>().unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{text:?}: {error}");
        assert_eq!(error.to_string(), LockKey::new(text).unwrap_err().to_string());
    }
}

#[test]
fn a_token_is_its_number_in_json() {
    assert_eq!(serde_json::to_string(&FencingToken::new(7)).unwrap(), "7");
    // More than a float has room for.
    let last = FencingToken::new(u64::MAX);
    let text = serde_json::to_string(&HashMap::from([("token", last)])).unwrap();
    assert_eq!(text, r#"{"token":18446744073709551615}"#);
    let read: HashMap<String, FencingToken> = serde_json::from_str(&text).unwrap();
    assert_eq!(read["token"], last);
    for wrong in ["-1", "\"7\"", "1.5", "null", "[1]"] {
        assert!(serde_json::from_str::<FencingToken>(wrong).is_err(), "{wrong}");
    }
}
