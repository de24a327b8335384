//! Every failure that is logged names the lock, where it was asked for, and its policy.

use crate::observe::outcomes::memory;
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

fn warnings(log: &Log) -> Vec<String> {
    let text = log.text();
    let is_warning = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    text.lines().filter(is_warning).map(str::to_owned).collect()
}

/// However the hold was taken: by a call, a try, a permit, a re-entry, a hand-off.
#[tokio::test(start_paused = true)]
async fn losses() {
    let client = builder().in_memory().unwrap();
    let brief = fixed(ms(300));
    let one = 1;
    let (mutex, fair) =
        (client.mutex("a").with(brief.clone()), client.fair_mutex("fair").with(brief.clone()));
    let (sides, permits) =
        (client.rw_lock("sides").with(brief.clone()), client.semaphore("permits", one));
    let permits = permits.with(brief.clone());
    let multi = client.multi_lock(["one", "two"]).with(brief.clone());
    let holds: [BoxFuture<'_, _>; 9] = [
        Box::pin(async { mutex.lock().await }),
        Box::pin(async { Ok(mutex.try_lock().await?.unwrap()) }),
        Box::pin(async { fair.lock().await }),
        Box::pin(async { sides.read().await }),
        Box::pin(async { Ok(sides.try_write().await?.unwrap()) }),
        Box::pin(permits.acquire()),
        Box::pin(async { Ok(permits.try_acquire().await?.unwrap()) }),
        Box::pin(async { multi.lock().await }),
        Box::pin(async { Ok(multi.try_lock().await?.unwrap()) }),
    ];
    for hold in holds {
        let log = Log::start();
        let guard: LockGuard = Result::<_, LockError>::unwrap(hold.await);
        assert!(guard.lost().await.is_lost());
        assert_named(&log, "lock lost", guard.key().as_str(), "none");
        drop(guard);
        tokio::time::sleep(secs(1)).await;
    }
    let log = Log::start();
    let guard = client.policy_lock("checkout", ["c"]).with(brief).lock().await.unwrap();
    assert!(guard.lost().await.is_lost());
    assert_named(&log, "lock lost", "c", "checkout");
}

/// Renewals and releases of a server that does not answer.
#[tokio::test]
async fn renewals_and_releases() {
    let log = Log::start();
    let server = RedisServer::start().await;
    let client = builder().connect(&server.url()).await.unwrap();
    let short = watched(ms(900));
    let kept = client.policy_lock("checkout", ["kept"]).with(short.clone()).lock().await.unwrap();
    let dropped = client.policy_lock("checkout", ["dropped"]).with(short).lock().await.unwrap();
    server.kill();
    drop(dropped);
    assert!(kept.lost().await.is_lost());
    let given_up = async || !log.lines_with("release given up").is_empty();
    eventually(SOON, "the release is given up", given_up).await;
    assert_named(&log, "renewal failed", "kept", "checkout");
    assert_named(&log, "lock lost", "kept", "checkout");
    assert_named(&log, "release failed, trying again", "dropped", "checkout");
    assert_named(&log, "release given up", "dropped", "checkout");
}

/// A server that hangs: the renewal is overdue before it fails.
#[tokio::test]
async fn overdue_renewals() {
    let log = Log::start();
    let server = RedisServer::start().await;
    let client = builder().connect(&server.url()).await.unwrap();
    let short = watched(ms(900));
    let kept = client.mutex("kept").with(short).lock().await.unwrap();
    server.pause();
    assert!(kept.lost().await.is_lost());
    server.resume();
    assert_named(&log, "renewal has no answer yet", "kept", "none");
}

#[distributed_lock(key = "nightly:{day}", on_busy = skip, client = client)]
async fn nightly(client: &LockClient, day: u32) -> Option<u32> {
    let _ = client;
    Some(day)
}

#[distributed_lock(key = "hourly:{hour}", on_busy = skip, policy = "checkout", wait = "50ms", client = client)]
async fn hourly(client: &LockClient, hour: u32) {
    let _ = (client, hour);
}

/// A job whose return type has no room for an error: beside a dead Redis the log says at ERROR which
/// job did not run, and why; a job that another process runs is no failure.
#[tokio::test]
async fn a_job_beside_a_dead_redis_is_told_from_a_skipped_one() {
    let log = Log::start();
    let server = RedisServer::start().await;
    let connect = async || builder().connect(&server.url()).await.unwrap();
    let (client, other) = (connect().await, connect().await);
    let long = fixed(SOON);
    let held = other.mutex("nightly:7").with(long.clone()).lock().await.unwrap();
    let held_too = other.mutex("hourly:3").with(long).lock().await.unwrap();
    assert_eq!(nightly(&client, 7).await, None);
    hourly(&client, 3).await;
    assert_eq!(warnings(&log), Vec::<String>::new(), "a skipped job is no failure");
    let skipped = "skipped: another holder has the lock";
    let lines = log.lines_with(skipped);
    assert!(lines.iter().any(|line| line.contains("lock.name=\"nightly:7\"")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("lock.policy=\"checkout\"")), "{lines:?}");

    server.kill();
    assert_eq!(nightly(&client, 8).await, None);
    hourly(&client, 4).await;
    assert_eq!(log.lines_with(skipped), lines, "a failure is no skip");
    let failed = log.lines_with(" ERROR ");
    assert_eq!(failed.len(), 2, "{failed:?}");
    for (line, (name, policy, site)) in failed
        .iter()
        .zip([("nightly:8", "none", "::nightly ("), ("hourly:4", "checkout", "::hourly (")])
    {
        assert!(line.contains(&format!("lock.name={name:?} ")), "{line}");
        assert!(line.contains(&format!("lock.policy={policy:?} ")), "{line}");
        let site = format!("failures{site}{HERE}");
        assert!(line.contains(&site), "no {site}: {line}");
        assert!(line.contains("error="), "{line}");
        assert!(line.contains("the call did not run"), "{line}");
    }
    drop((held, held_too));
}

#[distributed_lock(key = "stopped", on_busy = skip, policy = "checkout", client = client)]
async fn is_stopped(client: &LockClient) {
    client.admin().force_release("stopped").await.unwrap();
    std::future::pending().await
}

/// Its data has to be looked at, other than that of a job that did not run.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_stopped_is_told_from_one_that_did_not_run() {
    let log = Log::start();
    let Pair { client, .. } = memory().await;
    is_stopped(&client).await;
    assert_named(&log, "the call was stopped before its end", "stopped", "checkout");
    assert_eq!(log.lines_with("did not run"), Vec::<String>::new());
}

/// One line when a client is ready, and one when the store is back after a line that said that it is away.
#[tokio::test]
async fn beginnings_are_logged() {
    let log = Log::start();
    let server = RedisServer::start().await;
    let client = builder().namespace("shop").connect(&server.url()).await.unwrap();
    let lines = log.lines_with("lock client is ready");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let id = client.id().to_string();
    let port = format!("127.0.0.1:{}", server.port());
    for part in [&id[..8], &*port, "namespace=\"shop\"", env!("CARGO_PKG_VERSION")] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert!(!line.contains(&id), "the whole id: {line}");

    let (_server, proxy) = proxied().await;
    let client = builder().connect(&proxy.url()).await.unwrap();
    proxy.refuse();
    proxy.reset_all();
    soon!("it is away", !log.lines_with("cannot connect to the lock store yet").is_empty());
    proxy.pass();
    soon!("it is back", !log.lines_with("the lock store answers again").is_empty());
    let line = log.lines_with("the lock store answers again").remove(0);
    assert!(line.contains("away=") && line.contains("server="), "{line}");
    drop(client);
}

#[distributed_lock(key = "job", lease = "150ms", on_lost = finish, policy = "checkout", client = client)]
async fn outlives(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

#[distributed_lock(key = "job", policy = "checkout", client = client)]
async fn is_freed(client: &LockClient) -> Result<(), LockError> {
    assert!(client.admin().force_release("job").await.unwrap());
    Ok(())
}

/// A body whose hold is found gone by its release.
#[tokio::test]
async fn releases_of_annotated_functions() {
    let log = Log::start();
    let Pair { client, .. } = memory().await;
    outlives(&client).await.unwrap();
    is_freed(&client).await.unwrap();
    assert_named(&log, "its release failed", "job", "checkout");
}

/// What other fields say beside them stays: why, and which lock it is in which policy.
#[tokio::test]
async fn a_grant_that_comes_too_late() {
    let options = fixed(ms(200));
    let options = options.wait(secs(2));
    let log = Log::start();
    let (_server, proxy) = proxied().await;
    let client = builder().connect(&proxy.url()).await.unwrap();
    proxy.delay_replies(ms(250));
    client.mutex("late").with(options).lock().await.unwrap_err();
    assert_named(&log, "granted too late", "late", "none");
}

#[tokio::test]
async fn a_renewal_that_fails_in_part() {
    let log = Log::start();
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let one = builder().connect(&servers[0].url()).await.unwrap();
    let two = builder().connect(&servers[1].url()).await.unwrap();
    let options = watched(secs(2));
    let both = MultiLock::of([one.mutex("a").into(), two.mutex("b").into()]);
    let guard = both.with(options).lock().await.unwrap();
    servers[1].client().cmd(&["ACL", "SETUSER", "default", "-evalsha"]).await;
    soon!("it is lost", guard.is_lost());
    servers[1].client().cmd(&["ACL", "SETUSER", "default", "+evalsha"]).await;
    let lines = log.lines_with("renewal failed");
    let lines: Vec<_> = lines.iter().filter(|line| line.contains("WARN")).collect();
    assert!(!lines.is_empty(), "{}", log.text());
    for field in ["lock.name=", "lock.site=", "lock.policy="] {
        assert!(lines.iter().all(|line| line.contains(field)), "{field}: {lines:#?}");
    }
}

/// The line on a loss says which hold it was and for how long, and whether the process stood still.
#[tokio::test]
async fn a_loss_says_what_was_lost() {
    let server = RedisServer::start().await;
    let client = builder().connect(&server.url()).await.unwrap();
    let log = Log::start();
    let guard = client.mutex("cut").with(watched(ms(900))).lock().await.unwrap();
    sleep(ms(100)).await;
    // As a process that is stopped, or a task that blocks its runtime.
    std::thread::sleep(ms(1_500));
    assert!(guard.lost().await.is_lost());
    soon!("it is logged", !log.lines_with("lock lost").is_empty());
    let line = log.lines_with("lock lost").remove(0);
    assert!(line.contains(&format!("lock.token={}", guard.token())), "{line}");
    assert!(line.contains("lock.held=1."), "{line}");
    assert!(line.contains("stood still for 1."), "{line}");

    let log = Log::start();
    let guard = client.mutex("gone").with(watched(ms(900))).lock().await.unwrap();
    client.admin().force_release("gone").await.unwrap();
    assert!(guard.lost().await.is_lost());
    let line = log.lines_with("lock lost").remove(0);
    assert!(line.contains("lock.held=") && !line.contains("stood still"), "{line}");
}
