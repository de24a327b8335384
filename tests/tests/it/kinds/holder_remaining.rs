//! What is left of a holder's lease is told of a holder only: not of a waiter that goes first, nor of a writer that
//! has announced itself.

use lock_runtime::acquire::Acquire;

use crate::prelude::*;

/// The time for which a dead waiter keeps its place: more than any lease here.
const PLACE: Duration = secs(9);

const LEASE: Duration = secs(6);

fn request(target: &Arc<Target>, number: u64, place: Option<Duration>) -> AcquireRequest {
    AcquireRequest::new(Arc::clone(target), OwnerId::new(&client_id(), number, 1), LEASE, SOON)
        .with_place(place)
}

/// Has a waiter keep its place behind a holder that lets go, and nobody take it.
async fn leave_a_waiter(store: &dyn Store, held: &Arc<Target>, wanted: &Arc<Target>) {
    let first = request(held, 1, None);
    let owner = first.owner.clone();
    assert!(matches!(store.acquire(first).await.unwrap(), AcquireReply::Granted(_)));
    let waits = store.acquire(request(wanted, 2, Some(PLACE))).await.unwrap();
    let AcquireReply::Held(Some(left)) = waits else { panic!("{waits:?}") };
    assert!(left <= LEASE, "{left:?}");
    store.release(ReleaseRequest::new(Arc::clone(held), owner, SOON)).await.unwrap();
}

async fn told(acquire: impl Fn(LockOptions) -> Acquire) -> [Option<Duration>; 2] {
    let brief = LockOptions::new().wait(ms(150));
    let timeout = acquire(brief).await.unwrap_err();
    assert!(timeout.is_timeout(), "{timeout:?}");
    let busy = acquire(LockOptions::new().wait(Wait::None)).await.unwrap_err();
    [timeout.holder_remaining(), busy.holder_remaining()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_place_is_told_as_a_lease() {
    let server = RedisServer::start().await;
    let memory = MemoryStore::new();
    let redis = RedisStore::connect(&server.url()).await.unwrap();
    let stores: [(Arc<dyn Store>, LockClient); 2] = [
        (Arc::new(memory.clone()), LockClient::builder().store(memory).unwrap()),
        (Arc::new(redis), connect(&server).await),
    ];
    for (store, client) in stores {
        let key = |name| LockKey::new(name).unwrap();
        let fair = Target::fair(key("fair"));
        leave_a_waiter(&*store, &fair, &fair).await;
        let (read, write) = (Target::read(key("sides")), Target::write(key("sides")));
        leave_a_waiter(&*store, &read, &write).await;
        let of_fair = told(|options| client.fair_mutex("fair").with(options).lock()).await;
        let of_read = told(|options| client.rw_lock("sides").with(options).read()).await;
        assert_eq!((of_fair, of_read), ([None; 2], [None; 2]), "{store:?}");

        // Of a holder it is told as ever.
        let _held = client.fair_mutex("held").lock().await.unwrap();
        let held = store.acquire(request(&Target::fair(key("held")), 9, None)).await.unwrap();
        assert!(matches!(held, AcquireReply::Held(Some(_))), "{held:?}");
        let _writer = client.rw_lock("written").write().await.unwrap();
        let written = Target::read(key("written"));
        let written = store.acquire(request(&written, 9, None)).await.unwrap();
        assert!(matches!(written, AcquireReply::Held(Some(_))), "{written:?}");
    }
}
