//! Redis commands under a hold, where there are several servers (S-37).

use crate::prelude::*;
use crate::support::kinds::take_one_or_several;
use crate::topology::sentinel::world::World;

test_with!(a_cluster_writes_in_the_slot_of_the_lock, RedisCluster::start(), async |cluster| {
    let client = LockClient::builder().connect_cluster(cluster.urls()).await.unwrap();
    for kind in ["mutex", "fair", "write", "multi", "several fair", "several write"] {
        let name = format!("{{{kind}}}");
        let take = take_one_or_several(&client, kind, &name, LockOptions::default());
        let guard = take.await.unwrap();
        let key = format!("{name}:data");
        guard.redis("SET").key(&key).arg(1).run().await.unwrap();
        assert!(cluster.owner_of(&key).await.client().exists(&key).await, "{kind}");
        let watch = guard.watch();
        guard.release().await.unwrap();
        assert!(watch.redis("DEL").key(&key).run().await.unwrap_err().is_lost(), "{kind}");
        assert!(cluster.owner_of(&key).await.client().exists(&key).await, "{kind}");
    }
    // A name without a hash tag is one.
    let guard = client.mutex("order:42").lock().await.unwrap();
    let refused = guard.redis("SET").key("total").arg(1).run().await.unwrap_err();
    let (kind, sentence) = kind_and_sentence(refused);
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(sentence.contains("as in \"{order:42}:total\""), "{sentence}");
    guard.redis("SET").key("{order:42}:total").arg(1).run().await.unwrap();
    // A key that is given as an argument is not hidden from the servers.
    let (kind, sentence) =
        kind_and_sentence(guard.redis("SET").arg("total").arg(1).run().await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::Command, "{sentence}");
    assert!(sentence.ends_with("name each of its keys by `key`"), "{sentence}");
    guard.release().await.unwrap();
});

// MOVED and ASK say that nothing ran: the command follows, and runs once.
test_with!(a_command_follows_its_slot, RedisCluster::start(), async |cluster| {
    let client = LockClient::builder().connect_cluster(cluster.urls()).await.unwrap();
    let guard = client.mutex("{moves}").lock().await.unwrap();
    let add = async || guard.redis("INCR").key("{moves}:n").run().await.unwrap().as_integer();
    assert_eq!(add().await, Some(1));
    let slot = cluster.slot("{moves}").await;
    let to = (cluster.owner(slot).await + 1) % 3;
    let all = ["{moves}", "{moves}:n", "redisson_lock_token:{moves}"];
    let meanwhile = async { assert_eq!(add().await, Some(2), "redirected by ASK") };
    cluster.move_slot(slot, to, &all, meanwhile).await;
    assert_eq!(add().await, Some(3), "redirected by MOVED");
    guard.release().await.unwrap();
});

test_with!(the_master_that_sentinels_name_writes, World::new(1), async |world| {
    let client = world.client().await;
    let guard = client.mutex("held").lock().await.unwrap();
    guard.redis("SET").key("data").arg(1).run().await.unwrap();
    assert!(client.admin().force_release("held").await.unwrap());
    assert!(guard.redis("DEL").key("data").run().await.unwrap_err().is_lost());
    assert!(world.master().client().exists("data").await);
});
