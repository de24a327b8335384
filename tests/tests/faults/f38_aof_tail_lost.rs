//! Fault 38: the machine of a server with `appendfsync everysec` loses power: the end of the file that was not on the disk
//! yet is gone when the server is back.
//!
//! - Promised: what the disk had is held on; who was granted a lock after that learns from the next renewal that it is lost;
//!   tokens grow all the same; a lock whose release is gone is free when its lease ends; every lock within 4 s.
//! - Seen: 0.3 to 1 s; none of the early holds is lost, and each of the late ones is.

use std::fs::File;
use std::path::PathBuf;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let server = RedisServer::builder().arg("--appendonly", "yes");
    let mut drill = Drill::on(server.arg("--appendfsync", "everysec")).await;
    let file = appended(&drill.server).await;
    let early = Kept::take(&drill.near.client, "early").await;
    let power_cut = async |drill: &mut Drill| {
        let on_disk = file.metadata().unwrap().len();
        let late = Kept::take(&drill.near.client, "late").await;
        drill.near.works().await;
        drill.loses(async { drill.server.kill() }).await;
        assert!(file.metadata().unwrap().len() > on_disk, "nothing would be lost");
        file.set_len(on_disk).unwrap();
        drill.server.restart().await;
        late
    };
    let late = drill.fault(May::Delay, power_cut).await;
    late.are_lost(&drill.far.client).await;
    early.are_kept().await;
    drill.end(secs(4)).await;
}

/// The file that the server appends its commands to.
async fn appended(server: &RedisServer) -> File {
    let (_, dir): (String, String) = server.client().get(&["CONFIG", "GET", "dir"]).await;
    let dir = PathBuf::from(dir).join("appendonlydir");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_appended =
        |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(".incr.aof"));
    let path = files.into_iter().find(is_appended).expect("redis 7 names it so");
    File::options().write(true).open(path).unwrap()
}
