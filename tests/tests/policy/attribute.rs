//! `#[distributed_lock(policy = …)]`: what the configuration has to say, and when (S-32).

use super::*;
use lock_runtime::site::sites;
use lock_runtime::store::HoldKind;
use lock_tests::patience;

#[distributed_lock(key = "cart:{id}", policy = "checkout", client = client)]
async fn check_out(client: &LockClient, id: u64) -> Result<Option<HoldKind>, LockError> {
    Ok(client.admin().inspect(format!("cart:{id}")).await?.kind)
}

#[distributed_lock(key = "cart:{id}", policy = "checkout", client = client, kind = write, wait = "30ms")]
async fn check_out_by_literals(
    client: &LockClient,
    id: u64,
) -> Result<Option<HoldKind>, LockError> {
    Ok(client.admin().inspect(format!("cart:{id}")).await?.kind)
}

#[distributed_lock(key = "cart:{id}", policy = "checkout", client = client, on_busy = skip)]
async fn check_out_or_skip(client: &LockClient, id: u64) -> Option<()> {
    let _ = (client, id);
    Some(())
}

#[distributed_lock(key = "cart:{id}", policy = "trial", client = client)]
async fn try_out(client: &LockClient, id: u64) -> Result<bool, LockError> {
    Ok(client.admin().inspect(format!("cart:{id}")).await?.kind.is_some())
}

#[distributed_lock(key = "cart:{id}", policy = "trial", client = client, guard = hold)]
async fn try_out_with_guard(client: &LockClient, id: u64) -> Result<bool, LockError> {
    let _ = (client, id);
    Ok(!hold.is_lost())
}

const FAIR: &str = "[lock.defaults]\nwait = '3s'\n[lock.policies.checkout]\nkind = 'fair'";

#[tokio::test]
async fn a_policy_says_what_the_attribute_leaves_out() {
    let client = client(FAIR);
    assert_eq!(check_out(&client, 1).await.unwrap(), Some(HoldKind::Fair));
    assert_eq!(check_out_by_literals(&client, 2).await.unwrap(), Some(HoldKind::Write));
}

/// A job that skips does not wait because locks in general do; only its own policy can say so.
#[tokio::test(start_paused = true)]
async fn skip_waits_only_if_its_policy_says_so() {
    for (text, waits) in
        [(FAIR.to_owned(), Duration::ZERO), (format!("{FAIR}\nwait = '2s'"), secs(2))]
    {
        let client = client(&text);
        let held = client.fair_mutex("cart:1").lock().await.unwrap();
        let start = Instant::now();
        assert_eq!(check_out_or_skip(&client, 1).await, None);
        assert!(start.elapsed() >= waits, "{:?}", start.elapsed());
        assert!(start.elapsed() < waits + ms(500), "{:?}", start.elapsed());
        drop(held);
    }
}

#[tokio::test]
async fn what_is_not_enforced_delays_no_call() {
    let client = client("[lock.policies.trial]\nenforce = false\nwait = '60s'");
    assert!(try_out(&client, 1).await.unwrap(), "a free lock was not taken");
    let held = client.mutex("cart:1").lock().await.unwrap();
    let start = Instant::now();
    assert!(try_out(&client, 1).await.unwrap());
    assert!(start.elapsed() < patience(secs(5)), "{:?}", start.elapsed());
    // A body that names its hold needs one.
    let needs_it = timeout(ms(50), try_out_with_guard(&client, 1)).await;
    assert!(needs_it.is_err(), "{needs_it:?}");
    held.release().await.unwrap();
    assert!(try_out_with_guard(&client, 1).await.unwrap());
}

#[expect(dead_code, reason = "linked in is enough")]
#[distributed_lock(key = "pinned", policy = "pinned", lease = "10s", client = client)]
async fn pinned(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

/// At the start of a program, every attribute that does not go with the configuration is told.
#[tokio::test]
async fn sites_are_checked_before_there_is_traffic() {
    let mine: Vec<_> =
        sites().filter(|site| site.file().ends_with("policy/attribute.rs")).collect();
    assert_eq!(mine.len(), 6, "{mine:?}");
    assert!(mine.is_sorted_by_key(|site| site.line()));
    let first = mine[0];
    assert_eq!((first.name(), first.key()), ("policy::attribute::check_out", "cart:{id}"));
    assert_eq!((first.policy(), first.options().kind), (Some("checkout"), None));

    let good = "[lock.policies.checkout]\n[lock.policies.trial]\n[lock.policies.pinned]";
    client(good).admin().check_sites().unwrap();
    let bad = "[lock.policies.checkout]\n[lock.policies.pinned]\nat_least = '1m'";
    let error = client(bad).admin().check_sites().unwrap_err();
    let texts: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    // Whether it is logged, or returned by `main`: one problem on a line.
    assert_eq!((error.to_string(), format!("{error:?}")), (texts.join("\n"), texts.join("\n")));
    assert!(texts[..2].iter().all(|text| text.contains("no lock policy \"trial\"")), "{texts:?}");
    let says = ["policy/attribute.rs:", "contradicts its policy \"pinned\""];
    assert!(says.iter().all(|says| texts[2].contains(says)), "{texts:?}");

    // A reload refuses what breaks a function that works, and nothing else.
    let works = client(good);
    let refused = works.reload(read(bad).unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), texts.join("\n"));
    assert!(works.policy("trial").is_ok(), "the old one is in effect");
    client(bad).reload(read(bad).unwrap()).unwrap();
    works.reload(read(&format!("{good}\n[lock.policies.more]")).unwrap()).unwrap();
    assert!(works.policy("more").is_ok());
}
