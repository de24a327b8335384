//! Who has the last word: client's options, defaults, bases, policy, literal, call.

use std::num::NonZeroU32;
use std::time::Duration;

use super::read;
use lock_runtime::options::{LockSettings, OnLost, OnReleaseLost, Replicas};
use lock_runtime::policy::{BusyStatus, HoldUntil, LockConfig, Methods, Policy, SafeMethods};
use lock_runtime::{Lease, LockClient, LockError, LockKind, LockOptions, Wait};

/// The layers that speak, as bits from the lowest: defaults, far base, near base, policy.
const LAYERS: [(u8, &str, u64); 4] = [
    (1, "lock.defaults", 1),
    (2, "lock.base.far", 2),
    (4, "lock.base.near", 3),
    (8, "lock.policies.p", 4),
];

/// A configuration in which the layers of `speaking` each say how long to wait.
fn configured(speaking: u8, overrides: &str) -> LockConfig {
    let mut text = format!("[lock]\noverride = '{overrides}'\n");
    for (bit, table, seconds) in LAYERS {
        text += &format!("[{table}]\n");
        text += match table {
            "lock.base.near" => "base = 'far'\n",
            "lock.policies.p" => "base = 'near'\n",
            _ => "",
        };
        if speaking & bit != 0 {
            text += &format!("wait = '{seconds}s'\n");
        }
    }
    read(&text).unwrap()
}

fn seconds(seconds: u64) -> Wait {
    Wait::UpTo(Duration::from_secs(seconds))
}

fn waiting(wait: Wait) -> LockSettings {
    LockSettings::default().wait(wait)
}

fn client_with(config: LockConfig) -> LockClient {
    let options = LockOptions::builder().wait(seconds(60)).build().unwrap();
    LockClient::builder().options(options).config(config).in_memory().unwrap()
}

/// Every combination of layers that speak, with a literal and without one, either way round.
#[test]
fn the_highest_layer_that_speaks_wins() {
    for speaking in 0..16_u8 {
        let from_file = LAYERS.iter().rfind(|(bit, ..)| speaking & bit != 0).map(|layer| layer.2);
        for (overrides, literal, expected) in [
            ("literals", None, from_file),
            ("literals", Some(9), Some(9)),
            ("config", None, from_file),
            // Over the defaults a literal wins in any case.
            ("config", Some(9), if speaking > 1 { from_file } else { Some(9) }),
        ] {
            let client = client_with(configured(speaking, overrides));
            let policy = client.policy("p").unwrap();
            let literals = literal.map_or(LockSettings::default(), |s| waiting(seconds(s)));
            assert_eq!(policy.settings().wait, from_file.map(seconds), "{speaking:04b}");
            assert_eq!(
                policy.resolve(literals).wait,
                expected.map(seconds),
                "{speaking:04b} {overrides} {literal:?}"
            );
            // Where nobody speaks, the client's own options.
            let options = client.options_of(&policy, literals).unwrap();
            assert_eq!(options.wait(), seconds(expected.unwrap_or(60)));
        }
    }
}

/// `[lock.defaults]` hold for locks without a policy, and a call has the last word.
#[tokio::test]
async fn defaults_hold_for_every_lock() {
    let client = client_with(read("[lock.defaults]\nwait = 'none'\nlease = '7s'").unwrap());
    assert_eq!(
        (client.options().wait(), client.options().lease().duration().as_secs()),
        (Wait::Never, 7)
    );
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(guard.remaining() <= Duration::from_secs(7));
    let busy = client.mutex("a").lock().await.unwrap_err();
    assert!(matches!(busy, LockError::Busy { .. }), "{busy:?}");
    let call = LockOptions::builder().wait(Duration::from_millis(20)).build().unwrap();
    let waited = client.mutex("a").with(call).lock().await.unwrap_err();
    assert!(matches!(waited, LockError::Timeout { .. }), "{waited:?}");
    guard.release().await.unwrap();
}

fn policy(text: &str) -> Policy {
    read(text).unwrap().policy("p").unwrap()
}

#[test]
fn every_field_is_inherited() {
    let all = r#"
        [lock.base.b]
        key = "cart:{path.id}"
        kind = "semaphore(3)"
        wait = "forever"
        lease = "watchdog 40s"
        on_lost = "finish"
        on_release_lost = "error"
        at_least = "1s"
        max_hold = "5m"
        max_waiters = 100
        replicas = { at_least = 1, timeout = "200ms" }
        http = { busy = 423, hold = "body", safe_methods = "shared" }
        enforce = 30
        [lock.policies.p]
        base = "b"
        "#;
    let inherited = policy(all);
    let expected = LockSettings::default()
        .kind(LockKind::Semaphore(NonZeroU32::new(3).unwrap()))
        .wait(Wait::Forever)
        .lease(Lease::Watchdog(Duration::from_secs(40)))
        .on_lost(OnLost::Finish)
        .on_release_lost(OnReleaseLost::Error)
        .at_least(Duration::from_secs(1))
        .max_hold(Duration::from_secs(300))
        .max_waiters(100)
        .replicas(Replicas::new(1, Duration::from_millis(200)));
    assert_eq!(inherited.settings(), expected);
    assert_eq!((inherited.key(), inherited.enforce()), (Some("cart:{path.id}"), 30));
    assert_eq!(inherited.http().busy, Some(BusyStatus::Locked));

    let own = policy(&format!(
        "{all}\nkey = 'k'\nkind = 'read'\nenforce = 0\nhttp = {{ busy = 409, methods = ['PUT'] }}"
    ));
    assert_eq!(own.settings(), expected.kind(LockKind::Read));
    assert_eq!((own.key(), own.enforce()), (Some("k"), 0));
    let http = own.http();
    assert_eq!((http.busy, http.hold), (Some(BusyStatus::Conflict), Some(HoldUntil::Body)));
    assert_eq!(http.safe_methods, Some(SafeMethods::Shared));
    assert_eq!(http.methods, Some(Methods::These(vec!["PUT".to_owned()])));
}

/// A policy that says nothing leaves all to others, and is enforced.
#[test]
fn an_empty_policy_says_nothing() {
    let empty = policy("[lock.policies.p]");
    assert_eq!(empty.settings(), LockSettings::default());
    assert_eq!((empty.key(), empty.enforce()), (None, 100));
    assert_eq!(*empty.http(), lock_runtime::policy::HttpPolicy::default());
}

/// Shadow mode: the share of calls that a lock holds up is what the policy says.
#[test]
fn enforcement_is_a_share_of_calls() {
    for (percent, least, most) in
        [(0, 0, 0), (1, 20, 220), (50, 4_600, 5_400), (100, 10_000, 10_000)]
    {
        let policy = policy(&format!("[lock.policies.p]\nenforce = {percent}"));
        let decide = || {
            fastrand::seed(42);
            (0..10_000).map(|_| policy.is_enforced_now()).collect::<Vec<_>>()
        };
        let enforced = decide().into_iter().filter(|enforced| *enforced).count();
        assert!((least..=most).contains(&enforced), "{percent} %: {enforced} of 10000");
        assert_eq!(decide(), decide(), "the same seed decides alike");
    }
}
