//! Names of policies.

use super::*;

fn with_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("[lock.policies.\"{name}\"]\n")).collect()
}

/// A name is a name: nothing in it stands for other text.
#[test]
fn a_policy_has_its_name_alone() {
    let config = read(&with_names(&["checkout", "Über a.b_c-1"])).unwrap();
    for (name, is_known) in [
        ("checkout", true),
        ("Über a.b_c-1", true),
        ("Checkout", false),
        ("checkout2", false),
        ("", false),
    ] {
        match config.policy(name) {
            Ok(_) => assert!(is_known, "{name}"),
            Err(LockError::UnknownPolicy { policy, .. }) => {
                assert!(!is_known && policy == name, "{name}");
            }
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
    for name in ["tenant-*", "*", "a:b", "a/b", "a@b", "a\\nb"] {
        assert!(read(&with_names(&[name])).is_err(), "{name}");
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
        text(&["b", "a"], "order").to_string(),
        "no lock policy \"order\": the configuration has a, b"
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
