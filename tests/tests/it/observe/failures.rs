//! Every failure that is logged names the lock, where it was asked for, and its policy.

use lock_runtime::acquire::Acquire;

use crate::observe::scenario::*;

const HERE: &str = "tests/tests/it/observe/failures.rs:";

/// Every line that says `what` names this lock, its policy and a site of the caller's file; there is
/// one.
#[track_caller]
pub(crate) fn assert_named(log: &Log, what: &str, name: &str, policy: &str) {
    let file = std::panic::Location::caller().file();
    let lines = log.lines_with(what);
    assert!(!lines.is_empty(), "{what:?} is not logged:\n{}", log.text());
    for line in &lines {
        // What stands before is the span's.
        let line = line.split_once(what).unwrap().1;
        assert!(line.contains(&format!("lock.name={name:?} ")), "no name {name}: {line}");
        assert!(line.contains(&format!("lock.policy={policy:?} ")), "no policy {policy}: {line}");
        let site = line.split_once("lock.site=").map(|(_, site)| site);
        assert!(site.is_some_and(|site| site.contains(file)), "no site in {file} {line}");
    }
}

/// However the hold was taken: by a call, a try, a permit, several at once.
#[tokio::test(start_paused = true)]
async fn losses() {
    let client = builder().in_memory().unwrap();
    let brief = fixed(ms(300));
    let mutex = client.mutex("a").with(brief.clone());
    let fair = client.fair_mutex("fair").with(brief.clone());
    let sides = client.rw_lock("sides").with(brief.clone());
    let permits = client.semaphore("permits", 1).with(brief.clone());
    let multi = client.multi_lock(["one", "two"]).with(brief.clone());
    let checkout = client.policy_lock("checkout", ["c"]).with(brief);
    let tried = async |acquire: Acquire<Option<LockGuard>>| acquire.await.map(Option::unwrap);
    for hold in [
        mutex.lock().boxed(),
        Box::pin(tried(mutex.try_lock())),
        fair.lock().boxed(),
        sides.read().boxed(),
        Box::pin(tried(sides.try_write())),
        permits.acquire().boxed(),
        Box::pin(tried(permits.try_acquire())),
        multi.lock().boxed(),
        Box::pin(tried(multi.try_lock())),
        checkout.lock().boxed(),
    ] {
        let log = Log::start();
        let guard: LockGuard = hold.await.unwrap();
        assert!(guard.lost().await.is_lost());
        let name = guard.key().as_str();
        assert_named(&log, "lock lost", name, if name == "c" { "checkout" } else { "none" });
        drop(guard);
        sleep(secs(1)).await;
    }
}

/// Renewals and releases of a server that hangs, and of one that is gone; of several locks, in part.
#[tokio::test]
async fn renewals_and_releases() {
    let (log, server) = (Log::start(), RedisServer::start().await);
    let client = builder().connect(&server.url()).await.unwrap();
    let checkout = |name| client.policy_lock("checkout", [name]).with(watched(ms(900)));
    let overdue = checkout("overdue").lock().await.unwrap();
    server.pause();
    assert!(overdue.lost().await.is_lost());
    server.resume();
    assert_named(&log, "renewal has no answer yet", "overdue", "checkout");
    let kept = checkout("kept").lock().await.unwrap();
    let dropped = checkout("dropped").lock().await.unwrap();
    server.kill();
    drop(dropped);
    assert!(kept.lost().await.is_lost());
    soon!("the release is given up", !log.lines_with("release given up").is_empty());
    assert!(!log.lines_with("renewal failed").is_empty());
    assert_named(&log, "release failed, trying again", "dropped", "checkout");
    assert_named(&log, "release given up", "dropped", "checkout");

    let (log, servers) = (Log::start(), [RedisServer::start().await, RedisServer::start().await]);
    let one = builder().connect(&servers[0].url()).await.unwrap();
    let two = builder().connect(&servers[1].url()).await.unwrap();
    let both = MultiLock::of([one.mutex("a").into(), two.mutex("b").into()]);
    let guard = both.with(watched(secs(2))).lock().await.unwrap();
    servers[1].client().cmd(&["ACL", "SETUSER", "default", "-evalsha"]).await;
    soon!("it is lost", guard.is_lost());
    servers[1].client().cmd(&["ACL", "SETUSER", "default", "+evalsha"]).await;
    let mut lines = log.lines_with("renewal failed");
    lines.retain(|line| line.contains("WARN"));
    assert!(!lines.is_empty(), "{}", log.text());
    for field in ["lock.name=", "lock.site=", "lock.policy="] {
        assert!(lines.iter().all(|line| line.contains(field)), "{field}: {lines:#?}");
    }
}

#[distributed_lock(key = "nightly:{day}", on_busy = skip, client = client)]
async fn nightly(client: &LockClient, day: u32) -> Option<u32> {
    Some(day)
}

#[distributed_lock(key = "hourly:{hour}", on_busy = skip, policy = "checkout", wait = "50ms", client = client)]
async fn hourly(client: &LockClient, hour: u32) {}

/// A job whose return type has no room for an error: beside a dead Redis the log says at ERROR which
/// job did not run, and why; a job that another process runs is no failure.
#[tokio::test]
async fn a_job_beside_a_dead_redis_is_told_from_a_skipped_one() {
    let (log, server) = (Log::start(), RedisServer::start().await);
    let Pair { client, other } = redis(&server).await;
    let _held = other.mutex("nightly:7").with(fixed(SOON)).lock().await.unwrap();
    let _held_too = other.mutex("hourly:3").with(fixed(SOON)).lock().await.unwrap();
    assert_eq!(nightly(&client, 7).await, None);
    hourly(&client, 3).await;
    for level in [" WARN ", " ERROR "] {
        assert_eq!(log.lines_with(level), [""; 0], "a skipped job is no failure");
    }
    let lines = log.lines_with("skipped: another holder has the lock");
    assert!(lines.iter().any(|line| line.contains("lock.name=\"nightly:7\"")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("lock.policy=\"checkout\"")), "{lines:?}");

    server.kill();
    assert_eq!(nightly(&client, 8).await, None);
    hourly(&client, 4).await;
    assert_eq!(log.lines_with("skipped: "), lines, "a failure is no skip");
    let failed = log.lines_with(" ERROR ");
    assert_eq!(failed.len(), 2, "{failed:?}");
    for (line, (name, policy, site)) in failed
        .iter()
        .zip([("nightly:8", "none", "nightly ("), ("hourly:4", "checkout", "hourly (")])
    {
        assert!(line.contains(&format!("lock.name={name:?} ")), "{line}");
        assert!(line.contains(&format!("lock.policy={policy:?} ")), "{line}");
        assert!(line.contains(&format!("failures::{site}{HERE}")), "no {site}: {line}");
        assert!(line.contains("error=") && line.contains("the call did not run"), "{line}");
    }
}

#[distributed_lock(key = "stopped", on_busy = skip, policy = "checkout", client = client)]
async fn is_stopped(client: &LockClient) {
    client.admin().force_release("stopped").await.unwrap();
    pending().await
}

#[distributed_lock(key = "job", policy = "checkout", client = client)]
async fn is_freed(client: &LockClient) -> Result<(), LockError> {
    assert!(client.admin().force_release("job").await.unwrap());
    Ok(())
}

/// The data of a job that was stopped has to be looked at, other than that of a job that did not run. A body whose hold is
/// found gone by its release is told as well.
#[tokio::test(start_paused = true)]
async fn jobs_that_lose_their_lock() {
    let (log, client) = (Log::start(), builder().in_memory().unwrap());
    is_stopped(&client).await;
    assert_named(&log, "the call was stopped before its end", "stopped", "checkout");
    assert_eq!(log.lines_with("did not run"), [""; 0]);
    is_freed(&client).await.unwrap();
    assert_named(&log, "its release failed", "job", "checkout");
}

/// One line when a client is ready, and one when the store is back after a line that said that it is away.
#[tokio::test]
async fn beginnings_are_logged() {
    let log = Log::start();
    let (server, proxy) = proxied().await;
    let client = builder().namespace("shop").connect(&proxy.url()).await.unwrap();
    let lines = log.lines_with("lock client is ready");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let id = client.id().to_string();
    for part in [&id[..8], "127.0.0.1:", "namespace=\"shop\"", env!("CARGO_PKG_VERSION")] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert!(!line.contains(&id), "the whole id: {line}");
    proxy.refuse();
    proxy.reset_all();
    soon!("it is away", !log.lines_with("cannot connect to the lock store yet").is_empty());
    proxy.pass();
    soon!("it is back", !log.lines_with("the lock store answers again").is_empty());
    let line = log.lines_with("the lock store answers again").remove(0);
    assert!(line.contains("away=") && line.contains("server="), "{line}");
    drop(server);
}

/// What other fields say beside them stays: why, and which lock it is in which policy.
#[tokio::test]
async fn a_grant_that_comes_too_late() {
    let log = Log::start();
    let (_server, proxy) = proxied().await;
    let client = builder().connect(&proxy.url()).await.unwrap();
    proxy.delay_replies(ms(250));
    client.mutex("late").with(fixed(ms(200)).wait(secs(2))).lock().await.unwrap_err();
    assert_named(&log, "granted too late", "late", "none");
}

/// The line on a loss says which hold it was and for how long, and whether the process stood still.
#[tokio::test]
async fn a_loss_says_what_was_lost() {
    let (_server, client) = world().await;
    // The holder finds the loss when it is polled, or the task that renews does.
    for is_found_by_holder in [true, false] {
        let log = Log::start();
        let guard = client.mutex("cut").with(watched(ms(900))).lock().await.unwrap();
        sleep(ms(100)).await;
        // As a process that is stopped, or a task that blocks its runtime.
        std::thread::sleep(ms(1_500));
        if is_found_by_holder {
            assert!(guard.lost().await.is_lost());
        }
        soon!("it is logged", !log.lines_with("lock lost").is_empty());
        let line = log.lines_with("lock lost").remove(0);
        for part in [&format!("lock.token={}", guard.token()), "lock.held=1.", "stood still for 1."]
        {
            assert!(line.contains(part), "{line}");
        }
    }
    let log = Log::start();
    let guard = client.mutex("gone").with(watched(ms(900))).lock().await.unwrap();
    client.admin().force_release("gone").await.unwrap();
    assert!(guard.lost().await.is_lost());
    let line = log.lines_with("lock lost").remove(0);
    assert!(line.contains("lock.held=") && !line.contains("stood still"), "{line}");
}
