//! Acquires that are cancelled while there is no connection: what was never sent leaves nothing to release (S-21).

use kinds::KINDS_AND_SEVERAL;
use kinds::take_one_or_several as take;

use crate::prelude::*;
use crate::support::kinds;

/// A client whose connection is gone, and knows it.
async fn world_cut_off() -> (RedisServer, Proxy, LockClient) {
    let (server, proxy, client) = far_world().await;
    cut_off(&proxy, &client).await;
    (server, proxy, client)
}

/// Polls all of them a few times and drops them.
async fn cancel<F: Future>(acquires: impl IntoIterator<Item = F>) {
    let mut acquires: Vec<_> = acquires.into_iter().map(Box::pin).collect();
    for pause in [ms(0), ms(2), ms(20)] {
        for acquire in &mut acquires {
            assert!(poll!(acquire.as_mut()).is_pending(), "it needs no store");
        }
        sleep(pause).await;
    }
}

/// Nothing is left to release, and nothing was taken.
async fn is_clean(server: &RedisServer, proxy: &Proxy, client: &LockClient, case: &str) {
    let report = client.shutdown(Duration::ZERO).await;
    assert_eq!((report.still_held, report.not_given_back), (0, 0), "{case}");
    proxy.pass();
    assert_eq!(server.client().keys().await, Vec::<String>::new(), "{case}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sent_is_not_released() {
    for kind in KINDS_AND_SEVERAL {
        let (server, proxy, client) = world_cut_off().await;
        // Alone, behind another task of the same lock, and so many at once that they share scripts.
        cancel([take(&client, kind, kind, LockOptions::default())]).await;
        cancel((0..3).map(|_| take(&client, kind, kind, LockOptions::default()))).await;
        let names: Vec<_> = (0..200).map(|number| format!("{kind}:{number}")).collect();
        cancel(names.iter().map(|name| take(&client, kind, name, LockOptions::default()))).await;
        is_clean(&server, &proxy, &client, kind).await;
    }
}

/// The same for one that was tried again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_tried_again_is_not_released() {
    let tried = async |kind: &'static str| {
        let (server, proxy, client) = world_cut_off().await;
        let acquire = take(&client, kind, kind, LockOptions::default());
        assert!(timeout(ms(2_500), acquire).await.is_err(), "{kind}: it needs no store");
        is_clean(&server, &proxy, &client, kind).await;
    };
    join_all(KINDS_AND_SEVERAL.map(tried)).await;
}

/// S-31: such locks have a connection of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sent_for_replicas_is_not_released() {
    let (server, proxy, client) = world_cut_off().await;
    let replicated = LockOptions::new().replicas(Replicas::new(1, ms(500)));
    for kind in ["mutex", "fair", "write"] {
        cancel([take(&client, kind, kind, replicated.clone())]).await;
    }
    is_clean(&server, &proxy, &client, "replicas").await;
}

// S-28: a part that another server has granted is released, although the last request was not sent.
test_with!(parts_that_were_granted_are_released, world_cut_off(), async |(
    _server,
    proxy,
    client,
)| {
    let (near, other) = world().await;
    for (here, there) in [("a", "b"), ("b", "a")] {
        let lock = MultiLock::of([other.mutex(here).into(), client.mutex(there).into()]);
        let mut acquire = Box::pin(lock.lock());
        let raw = near.client();
        // The server that answers is asked first, or not at all.
        for _ in 0..20 {
            assert!(poll!(acquire.as_mut()).is_pending());
            sleep(ms(5)).await;
        }
        drop(acquire);
        soon!("the part is free", !raw.exists(here).await);
    }
    proxy.pass();
});
