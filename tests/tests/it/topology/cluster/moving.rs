//! Slots that move while locks in them are held and waited for.

use lock_runtime::store::ClusterStore;

use super::kinds::until_heard;
use super::world::{PROMPTLY, client, client_with};
use crate::prelude::*;

/// A name's slot goes to the next master.
async fn move_on(
    cluster: &RedisCluster,
    name: &str,
    first: &[&str],
    meanwhile: impl Future<Output = ()>,
) {
    let slot = cluster.slot(name).await;
    let from = cluster.owner(slot).await;
    cluster.move_slot(slot, (from + 1) % 3, first, meanwhile).await;
    assert_ne!(cluster.owner(slot).await, from);
}

// The slot goes to a node that the waiter's client has had nothing to do with. It connects at once and
// listens there, and not at its next look, which is up to a second later.
test_with!(waiters_listen_at_a_node_that_is_new, RedisCluster::with_spares(3), async |cluster| {
    let (a, b) = (client(&cluster).await, client(&cluster).await);
    let mut deaf = Vec::new();
    for (spare, name) in [(3, "{new}"), (4, "{newer}"), (5, "{newest}")] {
        let guard = a.mutex(name).lock().await.unwrap();
        let waiting = lock_tests::spawn(b.mutex(name).lock());
        until_heard(&cluster, name).await;
        cluster.move_slot(cluster.slot(name).await, spare, &[], async {}).await;
        let start = Instant::now();
        until_heard(&cluster, name).await;
        deaf.push(start.elapsed());
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    // A busy machine may delay any of them; a look once a second is never early three times.
    assert!(deaf.iter().any(|time| *time < ms(250)), "{deaf:?}");
});

// S-15: a release between the end of one subscription and the next is found out by the next, however long
// it takes to have.
test_with!(a_release_that_no_waiter_heard_is_found_out, RedisCluster::start(), async |cluster| {
    let (a, b) = (client(&cluster).await, client(&cluster).await);
    let name = "{unheard}";
    let to = (cluster.owner(cluster.slot(name).await).await + 1) % 3;
    let target = cluster.node(to).client();
    // A waiter of another name there: its connection is not made anew, which would wake everybody.
    let there = cluster.names_at(to, 1).await.remove(0);
    let (_held, _waits) =
        (a.mutex(&there).lock().await.unwrap(), lock_tests::spawn(b.mutex(&there).lock()));
    until_heard(&cluster, &there).await;

    let guard = a.mutex(name).lock().await.unwrap();
    let waiting = lock_tests::spawn(b.mutex(name).lock());
    until_heard(&cluster, name).await;
    target.cmd(&["ACL", "SETUSER", "default", "-ssubscribe"]).await;
    move_on(&cluster, name, &[], async {}).await;
    // Twice, so that whatever the move itself has it ask is over.
    soon!("it tries to listen", cluster.node(to).rejected_calls("ssubscribe").await >= 3);
    guard.release().await.unwrap();
    soon!("it is free", !target.exists(name).await);
    assert!(!waiting.is_finished(), "it has heard");
    target.cmd(&["ACL", "SETUSER", "default", "+ssubscribe"]).await;
    timeout(PROMPTLY, waiting).await.expect("not told").unwrap().unwrap().release().await.unwrap();
});

// A reader whose own key has not followed yet looks as if it had ended, at the node where the lock is by
// then. No writer gets in by that.
test_with!(a_reader_on_its_way_keeps_writers_out, RedisCluster::start(), async |cluster| {
    let reading = client(&cluster).await;
    let builder = LockClient::builder().waiter_lease(ms(600));
    let builder = builder.store_patience(secs(20));
    let writing = client_with(&cluster, builder).await;
    let reader = reading.rw_lock("{rw}").read().await.unwrap();
    let mut writer = lock_tests::spawn(writing.rw_lock("{rw}").write());
    until_heard(&cluster, "{rw}").await;
    let slot = cluster.slot("{rw}").await;
    let source = cluster.node(cluster.owner(slot).await);
    let first = ["{rw}", "redisson_lock_token:{rw}", "redisson_rwlock_writers:{rw}"];
    let half_way = async {
        soon!("the writer is sent on", {
            writer.is_finished() || source.error_replies("ASK").await >= 4
        });
        assert!(!writer.is_finished(), "a writer beside a reader: {:?}", (&mut writer).await);
    };
    cluster.move_slot(slot, (cluster.owner(slot).await + 1) % 3, &first, half_way).await;
    assert!(!reader.is_lost());
    reader.release().await.unwrap();
    writer.await.unwrap().unwrap().release().await.unwrap();
});

// A release that has to wait for the rest of the slot tells its caller so, and not to connect to a cluster.
test_with!(a_release_in_a_divided_slot_says_so, RedisCluster::start(), async |cluster| {
    let store = ClusterStore::connect(cluster.urls()).await.unwrap();
    let target = Target::read(LockKey::new("{rw}").unwrap());
    let owner = OwnerId::new(&client_id(), 1, 1);
    let request = AcquireRequest::new(Arc::clone(&target), owner.clone(), PROMPTLY, PROMPTLY);
    assert!(matches!(store.acquire(request).await, Ok(AcquireReply::Granted(_))));
    let refusal = async || {
        let release = ReleaseRequest::new(Arc::clone(&target), owner.clone(), ms(300));
        let error = store.release(release).await.unwrap_err();
        let first: &(dyn Error + 'static) = &error;
        let chain = std::iter::successors(Some(first), |&error| error.source());
        let texts: Vec<_> = chain.map(ToString::to_string).collect();
        assert!(texts.iter().all(|text| !text.contains("connect_cluster")), "{texts:?}");
        error.kind()
    };
    let half_way = async {
        // It is sent again until its time is over, which may be while an answer is under way.
        let what = "a release that says so";
        lock_tests::eventually(SOON, what, async || match refusal().await {
            StoreErrorKind::NotReady => true,
            other => {
                assert_eq!(other, StoreErrorKind::OutcomeUnknown);
                false
            }
        })
        .await;
    };
    let readers: Vec<String> = {
        let keys = cluster.owner_of("{rw}").await.client().keys().await;
        keys.into_iter().filter(|key| key.contains("rwlock_timeout")).collect()
    };
    let all = ["{rw}".to_owned()].into_iter().chain(readers).collect::<Vec<_>>();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    move_on(&cluster, "{rw}", &all, half_way).await;
});
