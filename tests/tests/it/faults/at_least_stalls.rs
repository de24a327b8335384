//! Locks that are kept for `at_least` although the server stands still while they are released (`LockOptions::at_least`).

use kinds::take_one_or_several as take;
use kinds::{KINDS_AND_SEVERAL, rival};

use crate::prelude::*;
use crate::support::kinds;
use crate::support::quorum::{quorum_of, servers};
use crate::support::troubled::{Trouble, Troubled};

/// Longer than the second after which a waiter passes over a release that is under way.
const STALL: Duration = ms(2_500);

/// How long the locks are kept: much longer than the server stands still.
const AT_LEAST: Duration = secs(8);

fn kept() -> LockOptions {
    LockOptions::new().at_least(AT_LEAST)
}

/// Each kind is released during the stall, beside a task of the same process that waits for the lock and beside one that does not. A
/// client of another process measures when it was free.
async fn all_are_kept(
    client: &LockClient,
    other: &LockClient,
    kinds: &[&'static str],
    stall: impl AsyncFnOnce(),
) {
    let manners = [("waits", Wait::UpTo(AT_LEAST / 2)), ("tries", Wait::None)];
    let cases = kinds.iter().flat_map(|kind| manners.map(|how| (*kind, how)));
    let held = cases.map(async |(kind, (how, wait))| {
        let name = format!("{kind} {how}");
        let start = Instant::now();
        (kind, take(client, kind, &name, kept()).await.unwrap(), name, wait, start)
    });
    let held = join_all(held).await;
    stall().await;
    let ended = held.into_iter().map(async |(kind, guard, name, wait, start)| {
        let mut release = Box::pin(guard.release());
        assert!(poll!(release.as_mut()).is_pending(), "{name}: the server does not stand still");
        let tried = lock_tests::spawn({
            let (client, name) = (client.clone(), name.clone());
            async move {
                take(&client, rival(kind), &name, waits(wait)).await.map(|_guard| Instant::now())
            }
        });
        timeout(SOON, release).await.expect("the release hangs").unwrap();
        let tried = timeout(SOON, tried).await.expect("the rival hangs").unwrap();
        // A slow machine may let it begin late enough to wait to the end.
        let kept = tried.map_or(AT_LEAST, |granted| granted - start);
        assert!(kept >= AT_LEAST, "{name}: the rival has it after {kept:?}");
        let next = take(other, rival(kind), &name, LockOptions::default());
        let next = timeout(SOON, next).await.unwrap_or_else(|_| panic!("{name}: never free"));
        let kept = start.elapsed();
        next.unwrap().release().await.unwrap();
        assert!(kept >= AT_LEAST, "{name}: free after {kept:?}");
    });
    join_all(ended).await;
}

test_with!(a_stall_of_the_server_does_not_end_it, world_of_two(), async |(
    server,
    client,
    other,
)| {
    let raw = server.client();
    let stall = async || {
        let millis = STALL.as_millis().to_string();
        raw.cmd(&["CLIENT", "PAUSE", &millis, "ALL"]).await;
    };
    all_are_kept(&client, &other, &KINDS_AND_SEVERAL, stall).await;
});

// S-29: all servers of a quorum stand still.
test_with!(a_stall_of_a_quorum_does_not_end_it, servers(3), async |servers| {
    let (client, other) = (quorum_of(&servers).await, quorum_of(&servers).await);
    let stall = async || {
        let millis = STALL.as_millis().to_string();
        let paused = servers.iter().map(async |server| {
            server.client().cmd(&["CLIENT", "PAUSE", &millis, "ALL"]).await;
        });
        join_all(paused).await;
    };
    all_are_kept(&client, &other, &["mutex"], stall).await;
});

#[tokio::test(start_paused = true)]
async fn a_stall_of_the_store_in_memory_does_not_end_it() {
    let memory = MemoryStore::new();
    let store = Troubled::new(memory.clone());
    let client = LockClient::builder().store(store.clone()).unwrap();
    let other = LockClient::builder().store(memory.peer()).unwrap();
    let stall = async || {
        store.set(Trouble::Waits);
        tokio::spawn(async move {
            sleep(STALL).await;
            store.set(Trouble::None);
        });
    };
    all_are_kept(&client, &other, &KINDS_AND_SEVERAL, stall).await;
}
