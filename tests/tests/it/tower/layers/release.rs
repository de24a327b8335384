//! When the lock is free again, however a request ends.

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_release_holds_an_answer_up_for_a_moment_only() {
    let store = MemoryStore::new();
    let troubled = Troubled::new(store.clone());
    let locks = LockClient::builder().store(troubled.clone()).unwrap();
    for timeout in [None, Some(ms(40))] {
        let log = Log::start_at(tracing::Level::DEBUG);
        let layer = order_layer(&locks);
        let layer =
            if let Some(timeout) = timeout { layer.release_timeout(timeout) } else { layer };
        troubled.of_releases(Trouble::Waits);
        let start = Instant::now();
        let service = layer.build().unwrap().layer(Calls::default().service());
        assert_eq!(service.oneshot(pay()).await.unwrap().status(), StatusCode::OK);
        let expected = timeout.unwrap_or(ms(250));
        let spare = start.elapsed().abs_diff(expected);
        assert!(spare <= ms(2), "{:?} and not {expected:?}", start.elapsed());
        assert!(log.text().contains("release not confirmed in time"), "{}", log.text());
        assert_eq!(held(&store, ORDER), 1);
        troubled.set(Trouble::None);
        free_soon(&store, ORDER).await;
    }
}

/// Looks, when dropped, whether the lock still protects it.
struct Protected {
    store: MemoryStore,
    was: Arc<AtomicBool>,
}

impl Drop for Protected {
    fn drop(&mut self) {
        self.was.store(held(&self.store, ORDER) == 1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_leaves_nothing_wherever_it_stood() {
    let (locks, peer, store) = two_clients();
    let was = Arc::new(AtomicBool::new(true));
    let layer = order_layer(&locks).build().unwrap();
    let service = layer.layer(service_fn({
        let (store, was) = (store.clone(), was.clone());
        move |_: Request<TestBody>| {
            let protected = Protected { store: store.clone(), was: was.clone() };
            async move {
                sleep(ms(1)).await;
                sleep(ms(1)).await;
                drop(protected);
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            }
        }
    }));
    // Alone: while it runs, and while it releases.
    let free = async |_| {
        free_soon(&store, ORDER).await;
        assert!(was.load(Ordering::SeqCst), "the handler was dropped without its lock");
    };
    let request = || service.clone().oneshot(pay());
    let (polls, answer) = drop_at_every_await(request, free).await;
    assert!(polls >= 3, "{polls}");
    assert_eq!(answer.unwrap().status(), StatusCode::OK);
    // Behind somebody else: while it waits, too.
    let (polls, _) = drop_at_every_await(
        || async {
            let other = peer.mutex(ORDER).lock().await.unwrap();
            let (answer, released) = tokio::join!(request(), async {
                sleep(ms(20)).await;
                other.release().await
            });
            released.unwrap();
            answer
        },
        free,
    )
    .await;
    assert!(polls >= 5, "{polls}");
}

/// S-13: an answer whose release finds the lease gone is given all the same, and the log says so.
#[tokio::test(start_paused = true)]
async fn an_answer_survives_its_release() {
    let store = Troubled::new(MemoryStore::new());
    store.of_releases(Trouble::NotOwner);
    let locks = LockClient::builder().store(store).unwrap();
    let log = Log::start_at(tracing::Level::DEBUG);
    let service = order_layer(&locks).build().unwrap().layer(Calls::default().service());
    assert_eq!(service.oneshot(pay()).await.unwrap().status(), StatusCode::OK);
    assert!(log.text().contains("the call ended, but its release failed"), "{}", log.text());
}
