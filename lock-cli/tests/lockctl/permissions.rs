//! Users without a permission, servers that do not answer, and wrong command lines: one sentence, and the right exit code.

use crate::world::{Ran, World, lockctl};

/// Runs `lockctl` as a user who may do all but that.
async fn without(world: &World, taken: &[&str], args: &[&str]) -> Ran {
    let raw = world.server.client();
    let user = ["ACL", "SETUSER", "ops", "reset", "on", ">secret", "~*", "&*", "+@all"];
    raw.cmd(&[&user[..], taken].concat()).await;
    let url = format!("redis://ops:secret@127.0.0.1:{}", world.server.port());
    lockctl(&[&["--url", &url], args].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_permission_is_named() {
    let world = World::start().await;
    let held = world.billing.mutex("order:1").lock().await.unwrap();
    for command in [&["ls"][..], &["show", "order:1"], &["clients"], &["deadlocks"]] {
        for (taken, says) in [
            (&["-subscribe"][..], "+subscribe"),
            (&["-publish"], "+publish"),
            (&["resetchannels"], "channel"),
        ] {
            without(&world, taken, command).await.failed(3, says);
        }
    }
    let listed = without(&world, &["-scan"], &["ls"]).await;
    listed.failed(0, "+scan");
    assert!(listed.stdout.contains("order:1"), "clients have named it: {listed:?}");
    for command in
        [&["show", "order:1"][..], &["watch", "order:1"], &["release", "order:1", "--yes"]]
    {
        without(&world, &["-evalsha"], command).await.failed(3, "evalsha");
        without(&world, &["-type"], command).await.failed(3, "does not let the user run");
        without(&world, &["resetkeys", "~other:*"], command)
            .await
            .failed(3, "does not give the user access to a key");
    }
    without(&world, &["-del"], &["release", "order:1", "--yes"])
        .await
        .failed(3, "does not let the user run");
    assert!(!held.is_lost(), "it was released without the permission");
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_what_is_not_permitted() {
    let world = World::start().await;
    let ran = without(&world, &["-info"], &["doctor"]).await;
    assert!(ran.code == 0 && ran.stdout.contains("`+info` is missing"), "{ran:?}");
    let ran = without(&world, &["-zadd"], &["doctor"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    let verdicts = ["semaphores", "mutexes", "latches"].map(|kind| {
        let line = ran.stdout.lines().find(|line| line.contains(&format!("  {kind}  ")));
        line.unwrap_or_else(|| panic!("no {kind} in {ran:?}")).split_whitespace().next().unwrap()
    });
    assert_eq!(verdicts, ["problem", "ok", "ok"], "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_one_sentence() {
    lockctl(&["ls"]).await.failed(2, "--url");
    lockctl(&["--url", "nonsense", "ls"]).await.failed(2, "cannot be used");
    lockctl(&["--url", "redis://127.0.0.1:1", "ls"]).await.failed(3, "127.0.0.1:1");
    let world = World::start().await;
    let port = world.server.port();
    let url = format!("redis://nobody:wrong@127.0.0.1:{port}");
    let refused = lockctl(&["--url", &url, "ls"]).await;
    refused.failed(3, "WRONGPASS");
    assert!(!refused.stderr.contains("wrong@"), "the password is shown: {refused:?}");
    for args in [&["--url", "redis://h", "lss"][..], &["ls", "--kind", "spin"], &["release"]] {
        assert_eq!(lockctl(args).await.code, 2, "{args:?}");
    }
}
