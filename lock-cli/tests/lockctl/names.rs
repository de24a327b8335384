//! Names of locks with and without their namespace, and all-clears that are none.

use std::time::Duration;

use lock_runtime::{LockClient, LockOptions, Wait};
use lock_tests::{RedisServer, eventually};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::world::{Ran, SOON, World, command, lockctl, service, waits};

async fn shop(server: &RedisServer, service: &str) -> LockClient {
    let wait = LockOptions::new().wait(Wait::UpTo(SOON));
    let builder = LockClient::builder().namespace("shop").service(service).options(wait);
    builder.connect(&server.url()).await.unwrap()
}

/// `lockctl` with its namespace in a variable.
async fn with_variable(url: &str, args: &[&str]) -> Ran {
    let output = command(&[&["--url", url], args].concat())
        .env("LOCK_NAMESPACE", "shop")
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A name that begins with the namespace is the whole name, as `ls`, logs and the console print it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_names_are_understood() {
    let server = RedisServer::start().await;
    let client = shop(&server, "billing").await;
    let held = client.mutex("order:1").lock().await.unwrap();
    let url = server.url();
    let names = [
        &["--namespace", "shop", "show", "order:1"][..],
        &["--namespace", "shop", "show", "shop:order:1"],
        &["show", "shop:order:1"],
    ];
    for args in names {
        let shown = lockctl(&[&["--url", &url], args].concat()).await;
        assert_eq!((shown.code, &*shown.stderr), (0, ""), "{args:?}: {shown:?}");
        assert!(shown.stdout.contains(&World::process("billing")), "{args:?}: {shown:?}");
    }
    for name in ["order:1", "shop:order:1"] {
        let shown = with_variable(&url, &["show", name]).await;
        assert_eq!(shown.code, 0, "{shown:?}");
        let listed = with_variable(&url, &["ls", name, "--json"]).await.json();
        assert_eq!(listed["locks"][0]["key"], "shop:order:1", "{listed}");
    }
    let free = with_variable(&url, &["show", "order:2"]).await;
    assert!(free.code == 1 && free.stdout.starts_with("shop:order:2 is free"), "{free:?}");
    let freed = with_variable(&url, &["release", "shop:order:1", "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
    let other = shop(&server, "orders").await;
    drop(other.mutex("order:1").try_lock().await.unwrap().expect("it is free"));
    drop(held);
}

/// A lock's own name may begin with the namespace's: then a name that begins so may be either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_locks_that_a_name_may_mean_none_is_released() {
    let server = RedisServer::start().await;
    let client = shop(&server, "billing").await;
    let (url, raw) = (server.url(), server.client());
    let both = (
        client.mutex("order:1").lock().await.unwrap(),
        client.mutex("shop:order:1").lock().await.unwrap(),
    );
    for command in ["show", "release"] {
        let args = [command, "shop:order:1", "--yes"];
        let args = if command == "release" { &args[..] } else { &args[..2] };
        with_variable(&url, args)
            .await
            .failed(1, "shop:order:1 and shop:shop:order:1 are both held");
    }
    assert!(raw.exists("shop:order:1").await && raw.exists("shop:shop:order:1").await);
    let freed = with_variable(&url, &["release", "shop:shop:order:1", "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
    assert!(raw.exists("shop:order:1").await && !raw.exists("shop:shop:order:1").await);
    let freed = with_variable(&url, &["release", "shop:order:1", "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
    assert!(!raw.exists("shop:order:1").await);
    drop(both);
}

/// Without a namespace, `deadlocks` and `ls` ask the clients of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_in_a_namespace_are_found_without_it() {
    let server = RedisServer::start().await;
    let (billing, orders) = (shop(&server, "billing").await, shop(&server, "orders").await);
    let one = billing.mutex("a").lock().await.unwrap();
    let other = orders.mutex("b").lock().await.unwrap();
    let (b, a) = (billing.mutex("b"), orders.mutex("a"));
    let tasks = [
        tokio::spawn(async move { one.run(b.lock()).await.map(drop) }),
        tokio::spawn(async move { other.run(a.lock()).await.map(drop) }),
    ];
    waits(&billing, 1).await;
    waits(&orders, 1).await;
    let url = server.url();
    let found = lockctl(&["--url", &url, "deadlocks", "--json"]).await;
    assert_eq!(found.code, 1, "{found:?}");
    let json = found.json();
    assert_eq!(
        (json["deadlocks"].as_array().unwrap().len(), &json["is_complete"]),
        (1, &true.into())
    );
    let listed = lockctl(&["--url", &url, "ls"]).await;
    assert!(!listed.stdout.contains("does not answer"), "{listed:?}");
    tasks.each_ref().iter().for_each(|task| task.abort());
}

/// A client that answers no survey may be part of a deadlock: then there is no all-clear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_all_clear_while_a_holder_has_not_answered() {
    let world = World::start().await;
    let builder = LockClient::builder().survey(false).service("silent");
    let silent = builder.connect(&world.server.url()).await.unwrap();
    let _held = silent.mutex("order:1").lock().await.unwrap();
    let ran = world.run(&["deadlocks"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("among the clients that answered"), "{ran:?}");
    let json = world.run(&["ls", "--json"]).await.json();
    assert_eq!(json["is_complete"], false, "{json}");
    let ran = world.run(&["ls"]).await;
    assert!(ran.stderr.contains("1 hold belongs to a client"), "{ran:?}");
    // Its connection still says whose it is.
    let name = World::process("silent");
    assert!(ran.stdout.contains(&format!("{name}, which does not answer")), "{ran:?}");
    let shown = world.run(&["show", "order:1"]).await;
    assert!(shown.stdout.contains(&format!("{name}, which does not answer")), "{shown:?}");
    let watch = world.run(&["watch", "order:1", "--json", "--for", "2s"]).await;
    assert_eq!(watch.json()["holder"], name, "{watch:?}");
}

/// Names that were not listed may be those of a deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_all_clear_without_having_looked() {
    let server = RedisServer::start().await;
    let raw = server.client();
    raw.cmd(&["ACL", "SETUSER", "ops", "reset", "on", ">secret", "~*", "&*", "+@all", "-scan"])
        .await;
    let url = format!("redis://ops:secret@127.0.0.1:{}", server.port());
    lockctl_says(&["--url", &url, "deadlocks"], "+scan").await;
    // Several pages of names, and time for one.
    for from in 0..20 {
        let keys: Vec<_> = (0..50).map(|at| format!("k:{from}:{at}")).collect();
        let script = "for _, key in ipairs(ARGV) do redis.call('HSET', key, 'field', '1') end";
        let words = ["EVAL", script, "0"].into_iter().chain(keys.iter().map(String::as_str));
        raw.cmd(&words.collect::<Vec<_>>()).await;
    }
    lockctl_says(&["--url", &server.url(), "--within", "0s", "deadlocks"], "--within").await;
}

/// Says that nothing was found, but not that there is nothing.
async fn lockctl_says(args: &[&str], says: &str) {
    let ran = lockctl(args).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.starts_with("no deadlock in what") && ran.stderr.contains(says), "{ran:?}");
}

/// A survey pairs holds and waits up to a bound. What is beyond it was not looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_all_clear_beyond_the_bound_of_guesses() {
    let world = World::start().await;
    let third = service(&world.server, "third").await;
    let (mut held, mut waiting) = (Vec::new(), JoinSet::new());
    for number in 0..350 {
        let (own, other) = (format!("own:{number}"), format!("other:{number}"));
        held.push(world.billing.mutex(&*own).lock().await.unwrap());
        held.push(world.orders.mutex(&*other).lock().await.unwrap());
    }
    // Each wait is younger than each hold, so that it may be inside of any.
    for number in 0..350 {
        let (own, other) = (format!("own:{number}"), format!("other:{number}"));
        waiting.spawn(third.mutex(&*own).wait(Wait::Forever).lock());
        waiting.spawn(world.billing.mutex(&*other).wait(Wait::Forever).lock());
    }
    waits(&world.billing, 350).await;
    waits(&third, 350).await;
    let mut found = Value::Null;
    eventually(6 * SOON, "it is not complete", async || {
        let ran = world.run(&["--within", "10s", "deadlocks", "--json"]).await;
        found = ran.json();
        ran.code == 1 && found["missing"] == 0 && found["is_complete"] == false
    })
    .await;
    assert_eq!(found["unaccounted"], 0, "{found}");
    assert!(found["possible"].as_array().unwrap().is_empty(), "{found}");
}

/// Guards in variables say nothing of what a task has around its wait, so a circle is a possible deadlock, named by client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_of_plain_guards_are_possible_ones() {
    let world = World::start().await;
    let one = world.billing.mutex("a").lock().await.unwrap();
    let other = world.orders.mutex("b").lock().await.unwrap();
    let (b, a) = (world.billing.mutex("b"), world.orders.mutex("a"));
    let tasks = [
        tokio::spawn(async move { drop((b.lock().await, one)) }),
        tokio::spawn(async move { drop((a.lock().await, other)) }),
    ];
    waits(&world.billing, 1).await;
    waits(&world.orders, 1).await;
    let mut found = world.run(&["deadlocks"]).await;
    for _ in 0..20 {
        if found.code == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        found = world.run(&["deadlocks"]).await;
    }
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains("1 possible deadlock"), "{found:?}");
    for process in ["billing", "orders"] {
        let line = found.stdout.lines().find(|line| line.contains(&World::process(process)));
        assert!(line.is_some_and(|line| line.matches("names.rs:").count() == 2), "{found:?}");
    }
    let json = world.run(&["deadlocks", "--json"]).await.json();
    assert_eq!(json["deadlocks"].as_array().unwrap().len(), 0, "{json}");
    assert_eq!(json["possible"][0]["edges"].as_array().unwrap().len(), 2, "{json}");
    tasks.each_ref().iter().for_each(|task| task.abort());
}

/// One lock is looked up by its name, however many keys the server has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_name_needs_no_listing() {
    let world = World::start().await;
    let _held = world.billing.mutex("order:1").lock().await.unwrap();
    world.server.reset_stats().await;
    assert_eq!(world.run(&["show", "order:1"]).await.code, 0);
    assert_eq!(world.run(&["release", "order:1"]).await.code, 1);
    let calls = world.server.command_calls().await;
    assert_eq!(calls.get("scan"), None, "{calls:?}");
}
