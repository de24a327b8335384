//! Messages reach every listener of their channel, once, until it stops to listen (S-35).

use lock_runtime::store::Listening;

use super::world::{CHANNEL, Inbox, World, on_every_store};
use crate::prelude::*;

on_every_store!(
    every_listener_receives_each_message_once,
    a_dropped_listener_receives_nothing,
    a_listener_may_panic_or_end_itself,
    nobody_listens,
);

async fn every_listener_receives_each_message_once(world: &World) {
    let (a, b) = world.two();
    let mut inboxes = [Inbox::of(a, CHANNEL), Inbox::of(a, CHANNEL), Inbox::of(b, CHANNEL)];
    let mut other = Inbox::of(b, "lock_runtime:other");
    for store in [a, b] {
        store.listened(CHANNEL, SOON).await.unwrap();
    }
    b.listened("lock_runtime:other", SOON).await.unwrap();
    let large: Vec<u8> = (0..64 * 1024).map(|at: u32| at.to_le_bytes()[0] ^ 7).collect();
    let messages = [&b"one"[..], b"", b"two\0\xff", &large, &large, &large];
    for message in messages {
        assert!(b.publish(CHANNEL, message, SOON).await.unwrap() >= 2, "two stores listen");
    }
    a.publish("lock_runtime:other", b"three", SOON).await.unwrap();
    for inbox in &mut inboxes {
        for message in messages {
            assert!(inbox.next().await == message, "not what was sent");
        }
    }
    assert_eq!(other.next().await, b"three");
    for inbox in inboxes.iter_mut().chain([&mut other]) {
        assert_eq!(inbox.rest(), Vec::<Vec<u8>>::new());
    }
}

async fn a_dropped_listener_receives_nothing(world: &World) {
    let (a, b) = world.two();
    let (mut ended, mut stays) = (Inbox::of(a, CHANNEL), Inbox::of(a, CHANNEL));
    a.listened(CHANNEL, SOON).await.unwrap();
    ended.listening = Listening::none();
    b.publish(CHANNEL, b"late", SOON).await.unwrap();
    assert_eq!(stays.next().await, b"late");
    assert_eq!(ended.rest(), Vec::<Vec<u8>>::new());
    // With the last one, the subscription ends as well.
    stays.listening = Listening::none();
    soon!("nobody is told", b.publish(CHANNEL, b"later", SOON).await.unwrap() == 0);
    // And begins anew.
    let mut next = Inbox::of(a, CHANNEL);
    a.listened(CHANNEL, SOON).await.unwrap();
    b.publish(CHANNEL, b"new", SOON).await.unwrap();
    assert_eq!(next.next().await, b"new");
}

/// A panic ends only its own call; and a function may drop what it listens with.
async fn a_listener_may_panic_or_end_itself(world: &World) {
    let (a, b) = world.two();
    let _panics = a.listen(CHANNEL, Arc::new(|_: &[u8]| panic!("a planned panic")));
    let own = Arc::new(Mutex::new(None::<Listening>));
    let calls = Arc::new(AtomicUsize::new(0));
    let (within, counted) = (Arc::clone(&own), Arc::clone(&calls));
    let ends = Arc::new(move |_: &[u8]| {
        counted.fetch_add(1, Ordering::SeqCst);
        drop(within.lock().unwrap().take());
    });
    *own.lock().unwrap() = Some(a.listen(CHANNEL, ends));
    let mut inbox = Inbox::of(a, CHANNEL);
    a.listened(CHANNEL, SOON).await.unwrap();
    for message in [b"one", b"two"] {
        b.publish(CHANNEL, message, SOON).await.unwrap();
        assert_eq!(inbox.next().await, message);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "called after its end");
    // The connection that it came on works as before.
    a.ping(SOON).await.unwrap();
}

async fn nobody_listens(world: &World) {
    let (a, b) = world.two();
    assert_eq!(b.publish(CHANNEL, b"hello?", SOON).await.unwrap(), 0);
    let error = a.listened(CHANNEL, SOON).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("call `listen` first"), "{error}");
}
