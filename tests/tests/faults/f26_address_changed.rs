//! Fault 26: the host name of the server resolves to another address from now on, and nothing answers at the old one.
//!
//! - Promised: the client resolves the name anew for each connection, so it works over the new address within 3 s.
//! - Seen: within 0.5 s.

use lock_tests::preload::{HOST, Host};

use crate::prelude::*;

const OLD: &str = "127.0.0.2";
const NEW: &str = "127.0.0.3";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_follows() {
    let host = Host::at(OLD);
    let server = RedisServer::builder().arg("--bind", "127.0.0.1 127.0.0.2 127.0.0.3");
    let mut drill = Drill::with(server, HOST, host.envs()).await;
    let raw = drill.server.client();
    let clients_at = async |address: &str| {
        let list: String = raw.get(&["CLIENT", "LIST"]).await;
        list.lines().filter(|line| line.contains(&format!("laddr={address}:"))).count()
    };
    assert!(clients_at(OLD).await > 0 && clients_at(NEW).await == 0);
    let change = async |drill: &mut Drill| {
        host.moves_to(NEW);
        raw.cmd(&["CONFIG", "SET", "bind", "127.0.0.1 127.0.0.3"]).await;
        let old = format!("{OLD}:{}", drill.server.port());
        raw.cmd(&["CLIENT", "KILL", "LADDR", &old]).await;
    };
    drill.fault(May::Delay, change).await;
    assert!(clients_at(OLD).await == 0 && clients_at(NEW).await > 0);
    drill.end(secs(3)).await;
}
