//! `lockctl watch`.

use std::time::Duration;

use lock_runtime::{Lease, LockOptions};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::world::{SOON, World};

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    let line = timeout(SOON, lines.next_line()).await.expect("nothing is printed");
    serde_json::from_str(&line.unwrap().expect("it has ended")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_is_printed() {
    let world = World::start().await;
    let held = world.billing.mutex("order:1").lock().await.unwrap();
    let mut watch = world.begin(&["watch", "order:1", "--json"]);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let (billing, orders) = (World::process("billing"), World::process("orders"));

    let granted = next(&mut lines).await;
    assert_eq!(
        (&granted["event"], &granted["holder"]),
        (&"granted".into(), &billing.clone().into())
    );
    held.release().await.unwrap();
    let released = next(&mut lines).await;
    assert_eq!((&released["event"], &released["holder"]), (&"released".into(), &billing.into()));

    let held = world.orders.mutex("order:1").lock().await.unwrap();
    assert_eq!(next(&mut lines).await["event"], "granted");
    assert_eq!(world.run(&["release", "order:1", "--yes"]).await.code, 0);
    let forced = next(&mut lines).await;
    assert_eq!((&forced["event"], &forced["holder"]), (&"forced".into(), &orders.into()));
    drop(held);

    // A hold whose process is gone.
    let brief = LockOptions::new().lease(Lease::Fixed(Duration::from_millis(900)));
    let gone = world.orders.mutex("order:1").with(brief).lock().await.unwrap();
    assert_eq!(next(&mut lines).await["event"], "granted");
    std::mem::forget(gone);
    assert_eq!(next(&mut lines).await["event"], "lost");

    world.server.pause();
    let silent = next(&mut lines).await;
    assert_eq!(silent["event"], "silent", "an outage does not end it");
    world.server.resume();
    assert_eq!(next(&mut lines).await["event"], "answers");
    let _held = world.billing.mutex("order:1").lock().await.unwrap();
    assert_eq!(next(&mut lines).await["event"], "granted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_after_its_time() {
    let world = World::start().await;
    let ran = world.run(&["watch", "order:1", "--for", "300ms"]).await;
    assert_eq!((ran.code, &*ran.stdout), (0, ""), "{ran:?}");
}

/// Grants that begin and end between two looks show in the token, and it says how often it looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_between_two_looks_are_counted() {
    let world = World::start().await;
    let mut watch = world.begin(&["watch", "order:1", "--json", "--for", "30s"]);
    let mut notes = BufReader::new(watch.stderr.take().unwrap()).lines();
    let note = timeout(SOON, notes.next_line()).await.expect("no note").unwrap().unwrap();
    assert!(note.contains("5 times a second"), "{note}");
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut total = 0;
    for round in 1..=2 {
        // Brief enough that no look meets it, mostly.
        let missed = loop {
            let held = world.billing.mutex("order:1").lock().await.unwrap();
            held.release().await.unwrap();
            let event = next(&mut lines).await;
            if event["event"] == "missed" {
                break event;
            }
            assert_eq!(event["event"], "granted", "{event}");
            assert_eq!(next(&mut lines).await["event"], "released");
        };
        total += 1;
        assert!(missed["token"].as_u64().is_some(), "{missed}");
        assert_eq!(missed["missed"], total, "{round}: {missed}");
    }
}
