//! A proxy that swallows one reply: every later reply on that connection arrives as the answer to the request
//! before. No request may take another's answer for its own.

use crate::prelude::*;

/// A store behind a proxy, and another that reaches the server directly.
struct World {
    proxy: Proxy,
    store: Arc<RedisStore>,
    direct: RedisStore,
    _server: RedisServer,
}

impl World {
    /// The mutex `first` is held by another client.
    async fn new() -> Self {
        let (server, proxy) = proxied().await;
        let store = Arc::new(RedisStore::connect(&proxy.url()).await.unwrap());
        let direct = RedisStore::connect(&server.url()).await.unwrap();
        direct.acquire(acquire(&mutex("first"), &owner())).await.unwrap();
        Self { proxy, store, direct, _server: server }
    }

    /// Has the reply to the first request swallowed, then makes the second. No client knows what came of the first; the answer to
    /// the second is returned. A new connection works.
    async fn one_after_the_other<A: Send + 'static, B>(
        &self,
        first: impl FnOnce(Arc<RedisStore>) -> StoreFuture<'static, A>,
        second: impl Future<Output = B>,
    ) -> B {
        self.proxy.swallow_next_reply_to("first");
        let swallowed = self.proxy.replies_swallowed() + 1;
        let first = lock_tests::spawn(first(Arc::clone(&self.store)));
        soon!("a reply is swallowed", self.proxy.replies_swallowed() == swallowed);
        assert!(!first.is_finished(), "it has an answer already");
        let second = timeout(SOON, second).await.expect("hung");
        is_unknown(timeout(SOON, first).await.expect("hung").unwrap());
        soon!("a new connection works", {
            let (target, owner) = (mutex("again"), owner());
            let taken = self.store.acquire(acquire(&target, &owner)).await;
            matches!(taken, Ok(AcquireReply::Granted(_)))
                && self.store.release(release(&target, &owner)).await.is_ok()
        });
        second
    }
}

fn mutex(name: &str) -> Arc<Target> {
    Target::mutex(LockKey::new(name).unwrap())
}

fn owner() -> OwnerId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    OwnerId::new(&client_id(), NEXT.fetch_add(1, Ordering::Relaxed), 1)
}

fn acquire(target: &Arc<Target>, owner: &OwnerId) -> AcquireRequest {
    AcquireRequest::new(Arc::clone(target), owner.clone(), 6 * SOON, SOON)
}

fn release(target: &Arc<Target>, owner: &OwnerId) -> ReleaseRequest {
    ReleaseRequest::new(Arc::clone(target), owner.clone(), SOON)
}

fn renew(target: &Arc<Target>, owner: &OwnerId) -> Vec<RenewRequest> {
    vec![RenewRequest::new(Arc::clone(target), owner.clone(), 6 * SOON)]
}

/// Asks for the mutex `first`.
fn asks(target: Arc<Target>) -> impl FnOnce(Arc<RedisStore>) -> StoreFuture<'static, AcquireReply> {
    |store| StoreFuture::new(async move { store.acquire(acquire(&target, &owner())).await })
}

fn is_unknown<T>(answer: Result<T, StoreError>) {
    let kind = answer.err().map(|error| error.kind());
    assert_eq!(kind, Some(StoreErrorKind::OutcomeUnknown), "it has another's answer");
}

/// The grant of a free lock is not taken for the answer to a lock that another client holds; nor on the connection for locks that
/// replicas have to know of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_of_the_lock_that_was_asked_for() {
    for replicas in [None, Some(Replicas::new(1, ms(100)))] {
        let world = World::new().await;
        let target = |name| Arc::new(mutex(name).with_replicas(replicas));
        // Makes the connection.
        world.store.acquire(acquire(&target("warm"), &owner())).await.unwrap();
        let connections = world.proxy.accepted();
        let second = world.store.acquire(acquire(&target("second"), &owner()));
        is_unknown(world.one_after_the_other(asks(target("first")), second).await);
        if replicas.is_none() {
            assert!(world.proxy.accepted() > connections, "the connection is still in use");
        }
    }
}

// Requests that share a script, and one that went out alone before them.
test_with!(grants_of_a_batch_are_of_the_locks_that_were_asked_for, World::new(), async |world| {
    world.direct.acquire(acquire(&mutex("held"), &owner())).await.unwrap();
    let many = join_all((0..40).map(async |n| {
        let target = mutex(&if n % 2 == 0 { format!("free:{n}") } else { "held".to_owned() });
        let answer = world.store.acquire(acquire(&target, &owner())).await;
        (target, answer)
    }));
    let many = world.one_after_the_other(asks(mutex("first")), many).await;
    for (target, answer) in &many {
        match (target.key().as_str(), answer) {
            (_, Err(error)) => assert_eq!(error.kind(), StoreErrorKind::OutcomeUnknown),
            ("held", Ok(AcquireReply::Held(_))) => {}
            (name, Ok(AcquireReply::Granted(_))) if name != "held" => {}
            (name, Ok(other)) => panic!("{name}: {other:?}"),
        }
    }
    assert!(many.iter().any(|(_, answer)| answer.is_err()), "the connection was not dropped");
});

test_with!(
    a_release_and_a_renewal_are_of_the_hold_that_was_asked_for,
    World::new(),
    async |world| {
        let (held, owner_of_held) = (mutex("second"), owner());
        for _ in 0..2 {
            world.direct.acquire(acquire(&held, &owner_of_held)).await.unwrap();
            let first = |store: Arc<RedisStore>| {
                StoreFuture::new(
                    async move { store.release(release(&mutex("first"), &owner())).await },
                )
            };
            let second = world.store.release(release(&held, &owner_of_held));
            is_unknown(world.one_after_the_other(first, second).await);
            world.direct.acquire(acquire(&held, &owner_of_held)).await.unwrap();
            let first = |store: Arc<RedisStore>| {
                StoreFuture::new(async move {
                    store.renew(renew(&mutex("first"), &owner()), SOON).await
                })
            };
            let second = world.store.renew(renew(&held, &owner_of_held), SOON);
            is_unknown(world.one_after_the_other(first, second).await);
        }
    }
);

// With no later request, the sign of life that is asked for finds it out: its answer comes in place of the
// one that was swallowed.
test_with!(a_sign_of_life_is_no_answer_to_a_script, far_world(), async |(
    server,
    proxy,
    client,
)| {
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    let connections = proxy.accepted();
    proxy.swallow_next_reply_to("alone");
    let guard = timeout(SOON, client.mutex("alone").lock()).await.expect("hung").unwrap();
    assert_eq!(proxy.replies_swallowed(), 1);
    assert!(proxy.accepted() > connections, "the connection is still in use");
    guard.release().await.unwrap();
    assert!(!server.client().exists("alone").await);
});
