//! Sentinels, clusters, configuration files, and users without a right.

use std::fs;

use lock_runtime::LockClient;
use lock_tests::redis_server::Sentinels;
use lock_tests::{RedisCluster, RedisServer};
use rustix::process::Signal;

use super::world::{Running, SLEEP, is_held, script};
use crate::world::{World, lockctl};

/// The lock is held while the command runs, and free afterwards.
async fn runs_under_the_lock(store: &[&str], client: &LockClient) {
    let mut running = Running::start(&[store, &script(&[], SLEEP)].concat());
    running.pids().await;
    assert!(is_held(client).await, "{store:?}");
    let busy = lockctl(&[store, &script(&["--no-wait"], SLEEP)].concat()).await;
    busy.failed(75, "held by lockctl@");
    running.send(Signal::TERM);
    assert_eq!(running.end().await.code, 143, "{store:?}");
    assert!(!is_held(client).await, "{store:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_clusters_and_files_name_the_server() {
    let master = RedisServer::start().await;
    let sentinels = Sentinels::builder("locks").start(&master, 0).await;
    let urls = sentinels.urls();
    let client = LockClient::builder().connect_sentinel("locks", &urls).await.unwrap();
    runs_under_the_lock(&["--sentinel", "locks", "--node", &urls[0]], &client).await;

    let cluster = RedisCluster::start().await;
    let node = cluster.node(0).url();
    let client = LockClient::builder().connect_cluster([&node]).await.unwrap();
    runs_under_the_lock(&["--cluster", &node], &client).await;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.toml");
    fs::write(&file, format!("[lock]\nurl = '{}'\n", master.url())).unwrap();
    let client = LockClient::connect(&master.url()).await.unwrap();
    runs_under_the_lock(&["--config", file.to_str().unwrap()], &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_and_nothing_runs() {
    let world = World::start().await;
    let raw = world.server.client();
    let url = format!("redis://ops:secret@127.0.0.1:{}", world.server.port());
    let user = ["ACL", "SETUSER", "ops", "reset", "on", ">secret", "~*", "&*", "+@all"];
    for (taken, says) in [
        (&["-evalsha"][..], "evalsha"),
        (&["-hset"], "does not let the user run"),
        (&["resetkeys", "~other:*"], "does not give the user access to a key"),
    ] {
        raw.cmd(&[&user[..], taken].concat()).await;
        let ran = lockctl(&[&["--url", &*url], &script(&[], "echo ran")[..]].concat()).await;
        ran.failed(3, says);
        assert_eq!(ran.stdout, "", "the command has run");
    }
    // Who may not ask the holders is told what the server knows.
    let _held = world.billing.mutex("backup").lock().await.unwrap();
    raw.cmd(&[&user[..], &["-subscribe", "-publish"]].concat()).await;
    let busy = [&["--url", &*url], &script(&["--no-wait"], "echo ran")[..]].concat();
    lockctl(&busy).await.failed(75, "is busy: another holder has it");
}
