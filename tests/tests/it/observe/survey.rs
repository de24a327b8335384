//! Who holds and who waits, asked from all processes (S-35).

use lock_runtime::admin::{Survey, SurveyedLock};

use crate::prelude::*;
use crate::support::workers::{ANSWER, Workers, told};

/// A request as other clients send it.
fn request(id: &str, prefix: &str) -> String {
    format!(r#"{{"v":1,"id":"{id}","prefix":"{prefix}","limit":1000}}"#)
}

const ID: &str = "6b1b36cb-04e6-4b3a-8d19-27b1f5ed7d3b";

pub(crate) fn lock<'a>(survey: &'a Survey, name: &str) -> &'a SurveyedLock {
    let found = survey.locks.iter().find(|lock| lock.key.as_str() == name);
    found.unwrap_or_else(|| panic!("{name} is not among {:?}", survey.locks))
}

/// Waits until that many acquires of the client wait.
pub(crate) async fn waits(client: &LockClient, count: usize) {
    eventually(SOON, "they wait", async || client.admin().waiting().len() == count).await;
}

async fn service(server: &RedisServer, name: &str) -> LockClient {
    LockClient::builder().service(name).connect(&server.url()).await.unwrap()
}

/// Each client's part is told by its own name, and the store's view stands beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_and_waiters_of_all_processes_are_found() {
    let server = RedisServer::start().await;
    let (billing, orders) = (service(&server, "billing").await, service(&server, "orders").await);
    let silent = LockClient::builder().survey(false).connect(&server.url()).await.unwrap();
    let guard = billing.mutex("order:1").lock().await.unwrap();
    let _unasked = silent.fair_mutex("order:2").lock().await.unwrap();
    let _other = billing.mutex("invoice:1").lock().await.unwrap();
    let waiter = lock_tests::spawn(orders.mutex("order:1").lock());
    waits(&orders, 1).await;

    let is_here = |site: &Option<String>| site.as_deref().unwrap().contains("observe/survey.rs:");
    for asking in [&billing, &silent] {
        let survey = asking.admin().survey().prefix("order:").within(SOON).await.unwrap();
        // The client that answers none has a hold.
        assert_eq!((survey.missing, survey.unaccounted), (0, 1), "{survey:?}");
        assert!(!survey.is_complete && survey.locks.len() == 2, "{survey:?}");
        let services: Vec<_> = survey.clients.iter().map(|one| &*one.client.service).collect();
        assert_eq!(services, ["billing", "orders"]);

        let shown = lock(&survey, "order:1");
        let ([holder], [waiting]) = (&shown.holders[..], &shown.waiters[..]) else {
            panic!("{shown:?}")
        };
        let process = holder.client.as_ref().unwrap();
        assert_eq!((process.pid, &*process.service), (std::process::id(), "billing"));
        assert_eq!(process.id, billing.id().to_string());
        assert_eq!((shown.kind, holder.count), (Some(HoldKind::Mutex), 1));
        assert!(holder.held_for.unwrap() < SOON && holder.remaining.unwrap() > secs(20));
        assert_eq!((&*waiting.client.service, waiting.place), ("orders", None));
        assert!(is_here(&holder.site) && is_here(&waiting.site), "{shown:?}");

        let unasked = lock(&survey, "order:2");
        let [holder] = &unasked.holders[..] else { panic!("{unasked:?}") };
        assert_eq!((&holder.client, &holder.site), (&None, &None), "it does not answer");
        // The name of its connections, which has the executable for want of a service.
        let id = silent.id().to_string();
        assert_eq!(holder.client_id, format!("{}…", &id[..8]));
        let end = format!("@{}:{}, which does not answer", process.host, process.pid);
        assert!(holder.to_string().ends_with(&end), "{holder}");
        assert!(unasked.remaining.unwrap() > secs(20));
    }
    guard.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
    let free = async || orders.admin().survey().prefix("order:1").await.unwrap().locks.is_empty();
    eventually(SOON, "a free lock is not listed", free).await;

    // In memory it works as with a server, among the clients that share the store.
    let alone = LockClient::in_memory();
    let _guard = alone.fair_mutex("order:1").lock().await.unwrap();
    let _waiter = lock_tests::spawn(alone.fair_mutex("order:1").lock());
    waits(&alone, 1).await;
    let survey = alone.admin().survey().await.unwrap();
    let shown = lock(&survey, "order:1");
    assert_eq!((shown.holders.len(), shown.waiters.len()), (1, 1), "{survey:?}");
    assert!(survey.is_complete && shown.kind == Some(HoldKind::Fair), "{survey:?}");
}

/// A process that hangs is counted as missing and delays the survey by no more than the time given; its locks are shown by
/// what the store knows, and so are those of a process that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_hangs_is_missing() {
    let world = Workers::new().await;
    let mut worker = world.worker().await;
    told(&mut worker, "lock mutex stopped", "locked ").await;
    let survey = world.client.admin().survey().within(SOON).await.unwrap();
    assert_eq!((survey.clients.len(), survey.missing), (2, 0), "{survey:?}");
    let pid = lock(&survey, "stopped").holders[0].client.as_ref().unwrap().pid;
    assert_eq!(pid, worker.id());

    worker.sigstop();
    let (start, within) = (Instant::now(), ms(500));
    let survey = world.client.admin().survey().within(within).await.unwrap();
    assert!(start.elapsed() >= within && start.elapsed() < patience(SOON), "{:?}", start.elapsed());
    assert_eq!((survey.clients.len(), survey.missing), (1, 1), "{survey:?}");
    assert!(!survey.is_complete && lock(&survey, "stopped").holders[0].client.is_none());
    worker.sigkill();
    let survey = async || world.client.admin().survey().within(SOON).await.unwrap();
    eventually(SOON, "nobody is missing", async || survey().await.missing == 0).await;
    let survey = survey().await;
    assert_eq!(lock(&survey, "stopped").holders[0].client, None);
    assert!(!survey.is_complete && survey.unaccounted == 1, "its lease goes on: {survey:?}");
}

/// Three processes in a circle, found with every site; in the order of a circle, whatever holder comes first. The circle
/// ends with their patience.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_across_three_processes_is_named() {
    let all = Workers::new().await;
    let mut workers = all.workers::<3>().await;
    let locks = ["a", "b", "c"];
    for (worker, lock) in workers.iter_mut().zip(locks) {
        told(worker, &format!("lock {lock}"), "locked").await;
    }
    for (worker, inner) in workers.iter_mut().zip(["b", "c", "a"]) {
        worker.send(&format!("inside {inner} 4000"));
    }
    let mut found = None;
    eventually(SOON, "the survey finds a deadlock", async || {
        found = all.client.admin().survey().await.unwrap().deadlocks().first().cloned();
        found.is_some()
    })
    .await;
    let deadlock = found.unwrap();
    let mut circle: Vec<_> = deadlock.edges.iter().collect();
    assert_eq!(circle.len(), 3, "{deadlock}");
    assert!(circle.windows(2).all(|two| two[0].waits_for == two[1].holds), "{deadlock}");
    circle.sort_by_key(|edge| edge.holds.clone());
    for (at, (edge, worker)) in circle.into_iter().zip(&workers).enumerate() {
        assert_eq!((edge.client.pid, edge.holds.as_str()), (worker.id(), locks[at]));
        assert_eq!(edge.waits_for.as_str(), locks[(at + 1) % 3]);
        for site in [&edge.acquired_at, &edge.waits_at] {
            assert!(site.as_deref().unwrap().contains("bin/worker/locks.rs:"), "{edge}");
        }
    }
    let mut gave_up = 0;
    for worker in &mut workers {
        gave_up += usize::from(worker.next_line(ANSWER).await == "gave up");
    }
    assert!(gave_up >= 1, "the circle has ended by itself");
    assert!(all.client.admin().survey().await.unwrap().deadlocks().is_empty());
}

/// Holds in one order never look like a circle, however many surveys meet them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nested_locks_that_finish_are_no_deadlock() {
    const NESTED: usize = 3_000;
    let server = RedisServer::start().await;
    let nested = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for number in 0..8_u64 {
        let (client, nested) = (service(&server, &number.to_string()).await, Arc::clone(&nested));
        tasks.push(lock_tests::spawn(async move {
            let mut choices = fastrand::Rng::with_seed(number);
            while nested.fetch_add(1, Ordering::Relaxed) < NESTED {
                let (low, high) = (choices.u32(0..4), choices.u32(4..8));
                let inner = client.mutex(high.to_string());
                let outer = client.mutex(low.to_string()).lock().await.unwrap();
                let inner = outer.run(inner.lock()).await.unwrap().unwrap();
                sleep(ms(1)).await;
                drop((inner, outer));
            }
            // A client that ends may be asked once more, and cannot answer.
            client
        }));
    }
    let asking = service(&server, "asking").await;
    let mut met = 0;
    while nested.load(Ordering::Relaxed) < NESTED {
        let survey = asking.admin().survey().within(SOON).await.unwrap();
        assert!(survey.deadlocks().is_empty(), "{:?}", survey.deadlocks());
        assert_eq!(survey.missing, 0, "all answer, four times a second");
        met += survey.locks.iter().map(|lock| lock.waiters.len()).sum::<usize>();
    }
    drop(joined(tasks).await);
    assert!(met > 0, "no survey has met a wait");
}

/// An answer says nothing that would release a lock or let its reader in. There are four a second, whatever is asked; and
/// none to what is no request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_answered_four_times_a_second() {
    let server = RedisServer::builder().password("hunter2-secret").start().await;
    let client = service(&server, "asked").await;
    let guard = client.mutex("order:1").lock().await.unwrap();
    let _inner = guard.run(client.mutex("order:2").lock()).await.unwrap().unwrap();
    let heard = server.subscribe_log(&format!("lock_runtime:survey:{ID}")).await;
    let side = server.client();
    let wrong = [
        String::new(),
        "{}".to_owned(),
        "null".to_owned(),
        "\u{0}".to_owned(),
        request(ID, &"x".repeat(5_000)),
        "[".repeat(1 << 20),
        "{\"v\":1}".to_owned(),
        request(ID, "").replace("\"v\":1", "\"v\":2"),
        request("no uuid", ""),
        request(ID, "").replace("1000", "-1"),
        "{\"v\":1,\"id\":{}}".to_owned(),
    ];
    for message in &wrong {
        side.cmd(&["PUBLISH", SURVEYS, message]).await;
    }
    server.reset_stats().await;
    let published = async || server.command_calls().await.get("publish").copied().unwrap_or(0);
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < ms(2_200) {
        let id = format!("00000000-0000-0000-0000-{asked:012}");
        side.cmd(&["PUBLISH", SURVEYS, &request(&id, "")]).await;
        asked += 1;
    }
    let seconds = start.elapsed().as_secs_f64().ceil() as u64;
    eventually(SOON, "some are answered", async || published().await >= asked + 4).await;
    let answers = published().await - asked;
    assert!(asked > 100 && answers <= 4 * (seconds + 1), "{answers} answers to {asked} requests");
    assert!(heard.payloads().is_empty(), "an answer to what is no request");

    // The same request is answered once, whichever servers deliver it.
    sleep(secs(1)).await;
    for _ in 0..3 {
        side.cmd(&["PUBLISH", SURVEYS, &request(ID, "")]).await;
    }
    soon!("it is answered", !heard.payloads().is_empty());
    sleep(secs(1)).await;
    let [answer] = &heard.payloads()[..] else { panic!("{:?}", heard.payloads()) };
    assert!(answer.contains("order:1"), "{answer}");
    let mut secrets = server.client().hgetall("order:1").await.into_keys().collect::<Vec<_>>();
    secrets.retain(|field| field != "mode");
    secrets.extend([guard.token().to_string(), server.port().to_string()]);
    secrets.extend(["hunter2", "127.0.0.1"].map(str::to_owned));
    for secret in secrets {
        assert!(!answer.contains(&secret), "{secret} in {answer}");
    }
}
