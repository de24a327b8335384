//! What excludes what inside one hold, by kind (S-6, S-27, S-28).

use crate::kinds::siblings::soon;
use crate::prelude::*;

/// S-6, S-27: reads share, in a read and in a write; a write inside of a write waits for them, and they
/// for it.
#[tokio::test(start_paused = true)]
async fn reads_share_and_writes_are_alone() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = lock.read().await.unwrap();
    let (one, two) = outer.run(async { tokio::join!(lock.read(), lock.read()) }).await.unwrap();
    drop((one.unwrap(), two.unwrap()));
    outer.release().await.unwrap();

    let outer = lock.write().await.unwrap();
    let inside = async {
        let (one, two) = tokio::join!(lock.read(), lock.read());
        let (one, two) = (one.unwrap(), two.unwrap());
        let mut write = pin!(lock.write());
        assert!(poll!(&mut write).is_pending(), "a write beside two reads");
        assert!(lock.try_write().await.unwrap().is_none());
        one.release().await.unwrap();
        assert!(poll!(&mut write).is_pending(), "a write beside a read");
        // First in, first out: who comes now waits for the write.
        assert!(lock.try_read().await.unwrap().is_none(), "it overtook the write");
        two.release().await.unwrap();
        let write = write.await.unwrap();
        let mut read = pin!(lock.read());
        assert!(poll!(&mut read).is_pending(), "a read beside a write");
        write.release().await.unwrap();
        read.await.unwrap().release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
    outer.release().await.unwrap();
}

/// S-27: a read inside of a write covers a write inside of it only where it is the one read.
#[tokio::test(start_paused = true)]
async fn a_write_inside_of_one_of_two_reads_is_refused() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = lock.write().await.unwrap();
    let inside = async {
        let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
        let refused = timeout(ms(10), one.run(lock.write())).await;
        let refused = refused.expect("it waits, as the other might for it").unwrap();
        assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })), "{refused:?}");
        two.release().await.unwrap();
        let write = one.run(lock.write()).await.unwrap().unwrap();
        assert!(lock.try_read().await.unwrap().is_none(), "a read beside a write");
        write.release().await.unwrap();
        drop(lock.try_read().await.unwrap().expect("reads share"));
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-27: writes inside of one read take turns, and the reads beside it wait for them, not for it.
#[tokio::test(start_paused = true)]
async fn writes_inside_of_a_read_take_turns() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = lock.write().await.unwrap();
    let inside = async {
        let read = lock.read().await.unwrap();
        let writing = std::cell::Cell::new(false);
        let write = async || {
            let guard = lock.write().await.unwrap();
            assert!(!writing.replace(true), "two write");
            sleep(ms(5)).await;
            // Nested in it: neither waits.
            guard.run(lock.write()).await.unwrap().unwrap().release().await.unwrap();
            writing.set(false);
            guard.release().await.unwrap();
        };
        let beside = async {
            sleep(ms(1)).await;
            let beside = lock.read().await.unwrap();
            assert!(!writing.get(), "a read beside a write");
            beside
        };
        let writes = read.run(async { tokio::join!(write(), write(), write()) });
        let (_, beside) = tokio::join!(writes, beside);
        assert!(lock.try_write().await.unwrap().is_none(), "a write beside two reads");
        read.release().await.unwrap();
        assert!(lock.try_write().await.unwrap().is_none(), "a write beside a read");
        beside.release().await.unwrap();
        drop(lock.try_write().await.unwrap().expect("no other is inside"));
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-28: one that waits for several locks has those before the one that is in its way; it gives them up when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_several_locks_leaves_none() {
    let client = LockClient::in_memory();
    let outer = client.multi_lock(["a", "b", "c"]).lock().await.unwrap();
    let inside = async {
        let lock = |name| client.mutex(name);
        let b = lock("b").lock().await.unwrap();
        let all = client.multi_lock(["a", "b", "c"]);
        let mut waits = Box::pin(all.lock());
        assert!(poll!(&mut waits).is_pending(), "two have b");
        assert!(lock("a").try_lock().await.unwrap().is_none(), "it overtook");
        let mut behind = Box::pin(lock("a").lock());
        assert!(poll!(&mut behind).is_pending(), "it overtook");
        drop(waits);
        drop(behind.await.unwrap());
        let mut waits = Box::pin(all.lock());
        assert!(poll!(&mut waits).is_pending(), "two have b");
        b.release().await.unwrap();
        let all = waits.await.unwrap();
        for name in ["a", "b", "c"] {
            assert!(lock(name).try_lock().await.unwrap().is_none(), "two have {name}");
        }
        all.release().await.unwrap();
        for name in ["a", "b", "c"] {
            drop(lock(name).try_lock().await.unwrap().expect("it is free"));
        }
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-28: of several locks held at once, only the same ones exclude each other.
#[tokio::test(start_paused = true)]
async fn locks_of_a_multi_lock_exclude_each_other_one_by_one() {
    let client = LockClient::in_memory();
    let other = LockClient::in_memory();
    let together = client.multi_lock(["a", "b", "c"]);
    let members = ["a", "b", "c"].map(|name| client.mutex(name).into());
    let beside: MultiMember = other.mutex("d").into();
    let of_two = MultiLock::of(members.into_iter().chain([beside]));
    for outer in [together, of_two] {
        let outer = soon(outer.lock()).await.unwrap();
        let inside = async {
            let a = client.mutex("a").lock().await.unwrap();
            let b = client.multi_lock(["b"]).try_lock().await.unwrap().expect("another lock");
            assert!(client.mutex("a").try_lock().await.unwrap().is_none(), "two have a");
            let mut both = pin!(client.multi_lock(["a", "b"]).lock());
            assert!(poll!(&mut both).is_pending(), "two have a and b");
            b.release().await.unwrap();
            assert!(poll!(&mut both).is_pending(), "two have a");
            drop(client.mutex("c").try_lock().await.unwrap().expect("another lock"));
            a.release().await.unwrap();
            let both = both.await.unwrap();
            // Nested in it: neither waits.
            drop(both.run(client.mutex("b").try_lock()).await.unwrap().unwrap().unwrap());
            // More than one of them has, of which none else has the rest.
            let more = client.multi_lock(["a", "c"]);
            drop(both.run(more.try_lock()).await.unwrap().unwrap().unwrap());
            both.release().await.unwrap();
        };
        soon(outer.run(inside)).await.unwrap();
        outer.release().await.unwrap();
    }
}

/// A hold that a lock over other kinds has: reads share there, too.
#[tokio::test(start_paused = true)]
async fn members_that_read_share() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = MultiLock::of([MultiMember::read(&lock), client.mutex("m").into()]);
    let outer = outer.lock().await.unwrap();
    let inside = async {
        let one = lock.read().await.unwrap();
        drop(lock.try_read().await.unwrap().expect("reads share"));
        let mutex = client.mutex("m").lock().await.unwrap();
        assert!(client.mutex("m").try_lock().await.unwrap().is_none(), "two have m");
        drop((one, mutex));
    };
    soon(outer.run(inside)).await.unwrap();
}
