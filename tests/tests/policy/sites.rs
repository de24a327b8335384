//! What annotated functions and a configuration say of each other, checked at start-up.

use super::*;
use lock_runtime::private::v1::lock_site;
use lock_runtime::site::LockSite;

const SECOND: Duration = secs(1);

fn site(line: u32) -> LockSite {
    saying(line, "", |it| it)
}

/// A site that follows `policy`, if it is not empty, and says what `say` sets.
fn saying(
    line: u32,
    policy: &'static str,
    say: impl FnOnce(LockOptions) -> LockOptions,
) -> LockSite {
    let policy = Some(policy).filter(|policy| !policy.is_empty());
    let names = ["shop::pay", "order:{id}", "src/shop.rs"];
    lock_site(names, line, policy, say(LockOptions::new()))
}

fn problems(config: &str, sites: &[LockSite]) -> Vec<String> {
    let config = read(config).unwrap();
    let found = config.check_sites(sites).err();
    let found = found.iter().flat_map(|error| error.problems());
    found.map(ToString::to_string).collect()
}

#[test]
fn what_fits_is_silent() {
    let config = "[lock.policies.tenant]\nmax_hold = '5m'";
    let sites = [
        site(1),
        saying(2, "tenant", |it| it.wait(Wait::None)),
        saying(3, "tenant", |it| it.lease(Lease::Watchdog(SECOND))),
        saying(4, "", |it| it.lease(Lease::Fixed(SECOND))),
        // A limit for renewals has no meaning where there are none.
        saying(5, "tenant", |it| it.lease(Lease::Fixed(SECOND))),
    ];
    assert_eq!(problems(config, &sites), [""; 0]);
}

#[test]
fn unknown_policies_and_contradictions_are_reported_by_place() {
    let config = "[lock.policies.checkout]\nat_least = '5m'\n[lock.policies.refund]\nlease = '2s'";
    let sites = [
        saying(1, "chekout", |it| it),
        saying(2, "checkout", |it| it.lease(Lease::Fixed(SECOND))),
        saying(3, "refund", |it| it.at_least(3 * SECOND)),
        saying(4, "refund", |it| it.max_hold(SECOND)),
        saying(5, "refund", |it| it.lease(Lease::Watchdog(SECOND)).max_hold(SECOND)),
    ];
    assert_eq!(
        problems(config, &sites),
        [
            "src/shop.rs:1: shop::pay cannot be locked: no lock policy \"chekout\": did you mean \
         \"checkout\"?",
            "src/shop.rs:2: shop::pay contradicts its policy \"checkout\": invalid lock options: \
         at_least 5m is longer than the fixed lease of 1s; make the lease as long",
            "src/shop.rs:3: shop::pay contradicts its policy \"refund\": invalid lock options: at_least \
         3s is longer than the fixed lease of 2s; make the lease as long",
            "src/shop.rs:4: shop::pay contradicts its policy \"refund\": invalid lock options: max_hold \
         1s is shorter than the fixed lease of 2s; make the lease as short",
        ]
    );
}

/// Without a policy, the literals meet the defaults.
#[test]
fn defaults_can_be_contradicted_too() {
    let fair = |mut it: LockOptions| {
        it.kind = Some(LockKind::Fair);
        it
    };
    let sites = [saying(7, "", |it| it.max_hold(SECOND)), saying(8, "", fair)];
    assert_eq!(
        problems("[lock.defaults]\nlease = '2s'", &sites),
        [
            "src/shop.rs:7: shop::pay contradicts [lock.defaults]: invalid lock options: max_hold 1s is \
         shorter than the fixed lease of 2s; make the lease as short"
        ]
    );
    assert_eq!(
        problems("[lock]\nquorum = ['redis://a']\nrestart_guard = '30s'", &sites),
        ["src/shop.rs:8: shop::pay asks for the kind fair, and a quorum keeps mutexes only"]
    );
}
