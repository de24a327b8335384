//! An extension is for the task that asked for it: the next holder has its own lease (S-14).

use crate::prelude::*;
use crate::support::kinds::{take_one_or_several as take_any, two_in_memory};

const LEASE: Duration = secs(3);
const LONG: Duration = secs(3600);

type Waiter = JoinHandle<Result<LockGuard, LockError>>;

fn waiter(client: &LockClient, kind: &'static str, name: &str) -> Waiter {
    let (client, name) = (client.clone(), name.to_owned());
    lock_tests::spawn(async move { take_any(&client, kind, &name, watched(LEASE)).await })
}

/// Two tasks of `client` wait while another process has the lock; the first extends its hold and releases it.
async fn after_an_extension(
    client: &LockClient,
    peer: &LockClient,
    first: &'static str,
    second: &'static str,
    name: &str,
) {
    let case = format!("{name}: {second} after {first}");
    // After a write, readers go before the next writer.
    let before = if second == "read" { "read" } else { first };
    let outside = take_any(peer, before, name, LockOptions::default()).await.unwrap();
    let first = waiter(client, first, name);
    // A lock of several names is listed by each of them.
    let waiting = || client.admin().waiting().len();
    soon!("the first waits", waiting() > 0);
    let one = waiting();
    let second = waiter(client, second, name);
    soon!("the second waits", waiting() > one);
    outside.release().await.unwrap();
    let got = async |waiter: Waiter| {
        let guard = timeout(SOON, waiter).await.unwrap_or_else(|_| panic!("{case}: never free"));
        guard.unwrap().unwrap()
    };
    let extended = got(first).await;
    extended.extend(LONG).await.unwrap();
    extended.release().await.unwrap();
    let next = got(second).await;
    assert!(next.remaining() <= LEASE, "{case}: it has {:?}", next.remaining());
    let inspected = if name.starts_with("multi") { format!("{name}-a") } else { name.to_owned() };
    let left = peer.admin().inspect(&inspected).await.unwrap().remaining.unwrap();
    assert!(left <= LEASE, "{case}: the store keeps it for {left:?}");
    next.release().await.unwrap();
}

async fn extensions_end(client: &LockClient, peer: &LockClient) {
    let pairs = [
        ("mutex", "mutex"),
        ("write", "write"),
        ("multi", "multi"),
        ("write", "read"),
        ("fair", "fair"),
    ];
    for (first, second) in pairs {
        after_an_extension(client, peer, first, second, &format!("{first}-{second}")).await;
    }
    // A reader that comes while another one of its process has an extended hold.
    let lock = client.rw_lock("readers").with(watched(LEASE));
    let extended = lock.read().await.unwrap();
    extended.extend(LONG).await.unwrap();
    let second = lock.read().await.unwrap();
    assert!(second.remaining() <= LEASE, "a reader has {:?}", second.remaining());
    assert!(extended.remaining() > LEASE, "the first has {:?}", extended.remaining());
    extended.release().await.unwrap();
    let third = lock.read().await.unwrap();
    assert!(third.remaining() <= LEASE, "a later reader has {:?}", third.remaining());
    let left = peer.admin().inspect("readers").await.unwrap().remaining.unwrap();
    assert!(left <= LEASE, "the store keeps it for {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_does_not_pass_to_the_next() {
    let (_server, client, peer) = world_of_two().await;
    for (client, peer) in [two_in_memory(), (client, peer)] {
        extensions_end(&client, &peer).await;
    }
}

/// What the hold already has needs no server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_that_changes_nothing_needs_no_server() {
    let (server, client) = world().await;
    let guard = client.mutex("long").with(fixed(LONG)).lock().await.unwrap();
    server.kill();
    guard.extend(LEASE).await.unwrap();
    assert!(guard.remaining() > LEASE);
}
