//! Names with `*`.

use super::read;
use lock_runtime::LockError;

fn with_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("[lock.policies.\"{name}\"]\n")).collect()
}

/// The policies, a name, and which of them it gets.
#[rustfmt::skip]
const WHO_GETS_IT: [(&[&str], &str, Option<&str>); 24] = [
    (&["checkout"], "checkout", Some("checkout")),
    (&["checkout"], "Checkout", None),
    (&["checkout"], "checkout2", None),
    (&["tenant-*"], "tenant-7", Some("tenant-*")),
    (&["tenant-*"], "tenant-", Some("tenant-*")),
    (&["tenant-*"], "tenant", None),
    (&["tenant-*"], "a-tenant-7", None),
    (&["*"], "", Some("*")),
    (&["*"], "anything", Some("*")),
    (&["*-job"], "nightly-job", Some("*-job")),
    (&["*-job"], "nightly-jobs", None),
    (&["a*z"], "az", Some("a*z")),
    (&["a*z"], "abz", Some("a*z")),
    (&["a*z"], "a", None),
    (&["ab*ba"], "aba", None),
    (&["a*b*c"], "a-b-c", Some("a*b*c")),
    (&["a*b*c"], "acb", None),
    (&["a*bb*b"], "abbb", Some("a*bb*b")),
    (&["a*bb*b"], "abb", None),
    (&["*", "tenant-*", "tenant-a*"], "tenant-a", Some("tenant-a*")),
    (&["*", "tenant-*", "tenant-a*"], "tenant-b", Some("tenant-*")),
    (&["*", "tenant-*", "tenant-a*"], "order", Some("*")),
    (&["t", "t*", "tenant-*-very-long-*"], "t", Some("t")),
    (&["é*", "ü*"], "über", Some("ü*")),
];

#[test]
fn the_closest_pattern_wins_and_a_name_wins_over_all() {
    for (names, name, expected) in WHO_GETS_IT {
        let config = read(&with_names(names)).unwrap_or_else(|error| panic!("{names:?}: {error}"));
        let found = config.policy(name);
        match (&found, expected) {
            (Ok(policy), Some(expected)) => assert_eq!(policy.name(), expected, "{names:?} {name}"),
            (Err(LockError::UnknownPolicy { policy, .. }), None) => assert_eq!(policy, name),
            _ => panic!("{names:?} {name}: {found:?}"),
        }
    }
}

/// Two patterns, and whether some name fits both as closely.
#[rustfmt::skip]
const CLASHES: [(&str, &str, bool); 12] = [
    ("a*", "*a", true), // aa, and a
    ("a*", "b*", false),
    ("*a", "*b", false),
    ("a*c", "ab*", true),
    ("a*c", "b*c", false),
    ("ab*", "a*b", true),
    ("a*", "ab*", false), // the longer one wins
    ("a*b*", "*a*b", true),
    ("x*ab*", "x*ba*", true),
    ("x*y*1", "x*y*2", false),
    ("a*aa", "aa*a", true),
    ("ab*", "ac*", false),
];

#[test]
fn patterns_that_fit_equally_well_are_refused() {
    for (one, other, clash) in CLASHES {
        for names in [[one, other], [other, one]] {
            let read = read(&with_names(&names));
            assert_eq!(read.is_err(), clash, "{names:?}: {read:?}");
        }
    }
}

#[test]
fn an_unknown_policy_says_what_there_is() {
    let text = |names: &[&str], name| read(&with_names(names)).unwrap().policy(name).unwrap_err();
    assert_eq!(
        text(&["checkout"], "chekout").to_string(),
        "no lock policy \"chekout\": did you mean \"checkout\"?"
    );
    assert_eq!(
        text(&["b", "a*"], "order").to_string(),
        "no lock policy \"order\": the configuration has a*, b"
    );
    assert_eq!(
        read("[lock]").unwrap().policy("order").unwrap_err().to_string(),
        "no lock policy \"order\": the configuration has none; add it under [lock.policies]"
    );
    let many: Vec<String> = (0..20).map(|n| format!("policy-{n:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = text(&many, "order");
    assert!(error.to_string().ends_with("policy-06, policy-07, …"), "{error}");
    assert!(!error.is_retryable() && !error.is_busy() && error.key().is_none());
}
