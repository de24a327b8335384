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
    async fn new() -> Self {
        let (server, proxy) = proxied().await;
        let store = Arc::new(RedisStore::connect(&proxy.url()).await.unwrap());
        let direct = RedisStore::connect(&server.url()).await.unwrap();
        Self { proxy, store, direct, _server: server }
    }

    /// Has the reply to `first` swallowed, then makes `second`: the answers of both.
    async fn one_after_the_other<A: Send + 'static, B>(
        &self,
        first: impl Future<Output = Result<A, StoreError>> + Send + 'static,
        second: impl Future<Output = Result<B, StoreError>>,
    ) -> (Result<A, StoreError>, Result<B, StoreError>) {
        self.proxy.swallow_next_reply_to("first");
        let swallowed = self.proxy.replies_swallowed() + 1;
        let first = lock_tests::spawn(first);
        let is_swallowed = async || self.proxy.replies_swallowed() == swallowed;
        eventually(SOON, "a reply is swallowed", is_swallowed).await;
        assert!(!first.is_finished(), "it has an answer already");
        let second = timeout(SOON, second).await.expect("hung");
        (timeout(SOON, first).await.expect("hung").unwrap(), second)
    }

    async fn works_again(&self) {
        soon!("a new connection works", {
            let target = mutex("again");
            let owner = owner();
            let taken = self.store.acquire(acquire(&target, &owner)).await;
            matches!(taken, Ok(AcquireReply::Granted(_)))
                && self.store.release(release(&target, &owner)).await.is_ok()
        });
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

fn kind<T>(answer: Result<T, StoreError>) -> Option<StoreErrorKind> {
    answer.err().map(|error| error.kind())
}

const UNKNOWN: Option<StoreErrorKind> = Some(StoreErrorKind::OutcomeUnknown);

/// The grant of a free lock is not taken for the answer to a lock that another client holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_of_the_lock_that_was_asked_for() {
    let world = World::new().await;
    world.direct.acquire(acquire(&mutex("first"), &owner())).await.unwrap();
    let connections = world.proxy.accepted();
    let store = Arc::clone(&world.store);
    let first = async move { store.acquire(acquire(&mutex("first"), &owner())).await };
    let second = world.store.acquire(acquire(&mutex("second"), &owner()));
    let (first, second) = world.one_after_the_other(first, second).await;
    assert!(!matches!(first, Ok(AcquireReply::Granted(_))), "two clients hold one lock");
    assert_eq!((kind(first), kind(second)), (UNKNOWN, UNKNOWN));
    world.works_again().await;
    assert!(world.proxy.accepted() > connections, "the connection is still in use");
}

/// The same on the connection for locks that replicas have to know of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replicated_grant_is_of_the_lock_that_was_asked_for() {
    let world = World::new().await;
    let replicas = Replicas::new(1, ms(100));
    let target = |name| Arc::new(mutex(name).with_replicas(Some(replicas)));
    // Makes the connection.
    world.store.acquire(acquire(&target("warm"), &owner())).await.unwrap();
    world.direct.acquire(acquire(&mutex("first"), &owner())).await.unwrap();
    let (store, of_first) = (Arc::clone(&world.store), target("first"));
    let first = async move { store.acquire(acquire(&of_first, &owner())).await };
    let second = world.store.acquire(acquire(&target("second"), &owner()));
    let (first, second) = world.one_after_the_other(first, second).await;
    assert_eq!((kind(first), kind(second)), (UNKNOWN, UNKNOWN));
    world.works_again().await;
}

/// Requests that share a script, and one that went out alone before them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_a_batch_are_of_the_locks_that_were_asked_for() {
    let world = World::new().await;
    for name in ["first", "held"] {
        world.direct.acquire(acquire(&mutex(name), &owner())).await.unwrap();
    }
    let store = Arc::clone(&world.store);
    let first = async move { store.acquire(acquire(&mutex("first"), &owner())).await };
    let many = join_all((0..40).map(|n| {
        let target = mutex(&if n % 2 == 0 { format!("free:{n}") } else { "held".to_owned() });
        let store = &world.store;
        async move {
            let answer = store.acquire(acquire(&target, &owner())).await;
            (target, answer)
        }
    }));
    let (first, many) = world.one_after_the_other(first, async { Ok(many.await) }).await;
    assert_eq!(kind(first), UNKNOWN);
    let many = many.unwrap();
    for (target, answer) in &many {
        match (target.key().as_str(), answer) {
            (_, Err(error)) => assert_eq!(error.kind(), StoreErrorKind::OutcomeUnknown),
            ("held", Ok(AcquireReply::Held(_))) => {}
            (name, Ok(AcquireReply::Granted(_))) if name != "held" => {}
            (name, Ok(other)) => panic!("{name}: {other:?}"),
        }
    }
    assert!(many.iter().any(|(_, answer)| answer.is_err()), "the connection was not dropped");
    world.works_again().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_and_a_renewal_are_of_the_hold_that_was_asked_for() {
    let world = World::new().await;
    let (held, owner_of_held) = (mutex("second"), owner());
    for _ in 0..2 {
        world.direct.acquire(acquire(&held, &owner_of_held)).await.unwrap();
        let store = Arc::clone(&world.store);
        let first = async move { store.release(release(&mutex("first"), &owner())).await };
        let second = world.store.release(release(&held, &owner_of_held));
        let (first, second) = world.one_after_the_other(first, second).await;
        assert!(
            !matches!(first, Ok(ReleaseReply::Released { .. })),
            "released what it did not hold"
        );
        assert_eq!((kind(first), kind(second)), (UNKNOWN, UNKNOWN));
        world.works_again().await;

        world.direct.acquire(acquire(&held, &owner_of_held)).await.unwrap();
        let store = Arc::clone(&world.store);
        let first = async move { store.renew(renew(&mutex("first"), &owner()), SOON).await };
        let second = world.store.renew(renew(&held, &owner_of_held), SOON);
        let (first, second) = world.one_after_the_other(first, second).await;
        assert_ne!(
            first.as_deref().ok(),
            Some(&[Ownership::Owner][..]),
            "renewed what it did not hold"
        );
        assert_eq!((kind(first), kind(second)), (UNKNOWN, UNKNOWN));
        world.works_again().await;
    }
}

/// With no later request, the sign of life that is asked for finds it out: its answer comes in place of the
/// one that was swallowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_of_life_is_no_answer_to_a_script() {
    let (server, proxy, client) = far_world().await;
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    let connections = proxy.accepted();
    proxy.swallow_next_reply_to("alone");
    let guard = timeout(SOON, client.mutex("alone").lock()).await.expect("hung").unwrap();
    assert_eq!(proxy.replies_swallowed(), 1);
    assert!(proxy.accepted() > connections, "the connection is still in use");
    guard.release().await.unwrap();
    assert!(!server.client().exists("alone").await);
}
