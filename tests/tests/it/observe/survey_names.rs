//! A survey names the process of a holder that does not answer, by the name of its connection (S-35).

use lock_runtime::admin::Survey;

use crate::observe::survey::lock;
use crate::prelude::*;
use crate::support::workers::{Workers, told};

/// What a survey says of the one holder of a lock, as people read it.
fn holder(survey: &Survey, name: &str) -> String {
    let lock = lock(survey, name);
    let [holder] = &lock.holders[..] else { panic!("{lock:?}") };
    holder.to_string()
}

async fn survey(client: &LockClient) -> Survey {
    client.admin().survey().within(ms(500)).await.unwrap()
}

/// A client that answers no surveys, as one that hangs.
fn silent(service: &str) -> LockClientBuilder {
    LockClient::builder().service(service).survey(false)
}

/// `…@host:pid` of this process, as surveys call it.
async fn this_process(client: &LockClient) -> String {
    let survey = client.admin().survey().within(SOON).await.unwrap();
    let own = survey.clients.iter().find(|one| one.client.id == client.id().to_string()).unwrap();
    own.client.to_string().split_once('@').unwrap().1.to_owned()
}

/// An operator who meets a frozen holder for the first time learns the process, and knows it still when the server has
/// closed its connections. A name that a client gave in an earlier survey needs no right, and asks the server for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_holder_is_named() {
    let world = Workers::new().await;
    let mut worker = world.worker().await;
    told(&mut worker, "lock mutex stopped", "locked ").await;
    let name = holder(&world.client.admin().survey().within(SOON).await.unwrap(), "stopped");
    assert!(name.ends_with(&format!(":{}", worker.id())), "{name}");
    worker.sigstop();
    let expected = format!("{name}, which does not answer");
    assert_eq!(holder(&survey(&world.client).await, "stopped"), expected);
    let info: String = world.server.client().get(&["INFO", "commandstats"]).await;
    assert!(!info.contains("cmdstat_client|list:"), "all holders have answered, or were known");

    // Neither has heard of it before.
    let operator = connect(&world.server).await;
    let later = connect(&world.server).await;
    assert_eq!(holder(&survey(&operator).await, "stopped"), expected);

    // As a server does that the client does not read from. The connections of the others are made again.
    assert!(world.server.client_kill(ClientType::PubSub).await > 0);
    world.server.client_kill(ClientType::Normal).await;
    soon!("the name is kept", {
        let survey = operator.admin().survey().within(ms(500)).await;
        survey.is_ok_and(|survey| holder(&survey, "stopped") == expected)
    });
    soon!("a client that comes later learns only the id", {
        let survey = later.admin().survey().within(ms(500)).await;
        survey.is_ok_and(|survey| holder(&survey, "stopped").starts_with("client "))
    });
    worker.sigkill();
}

/// A user without the right sees the beginning of the id, and so does one of a store without connections. Others see the
/// name, with what the server allows in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_the_id_is_shown() {
    let (server, trusted) = world().await;
    let rule = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-client|list"];
    server.client().cmd(&rule).await;
    let url = server.url().replace("redis://", "redis://locks:secret@");
    let operator = LockClient::connect(&url).await.unwrap();
    let client = silent("bücher & more\n").connect(&server.url()).await.unwrap();
    let _guard = client.mutex("a").lock().await.unwrap();
    let id = client.id().to_string();
    let seen = survey(&operator).await;
    assert_eq!(holder(&seen, "a"), format!("client {}…, which does not answer", &id[..8]));
    assert_eq!(seen.not_listed.map(|error| error.to_string()), None);
    let here = this_process(&trusted).await;
    let shown = holder(&survey(&trusted).await, "a");
    assert_eq!(shown, format!("b_cher_&_more_@{here}, which does not answer"));

    let store = MemoryStore::new();
    let operator = LockClient::builder().store(store.clone()).unwrap();
    let client = silent("billing").store(store.peer()).unwrap();
    let _guard = client.mutex("a").lock().await.unwrap();
    assert!(holder(&survey(&operator).await, "a").starts_with("client "));
}

/// Every master that the store talks to is asked: the holder may be connected to one of them only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_and_in_a_cluster() {
    let master = RedisServer::start().await;
    let sentinels = Sentinels::builder("locks").start(&master, 0).await;
    let (urls, cluster) = (sentinels.urls(), RedisCluster::start().await);
    let nodes = cluster.urls();
    for (operator, client) in [
        (
            LockClient::builder().connect_sentinel("locks", &urls).await.unwrap(),
            silent("billing").connect_sentinel("locks", &urls).await.unwrap(),
        ),
        (
            LockClient::builder().connect_cluster(&nodes).await.unwrap(),
            silent("billing").connect_cluster(&nodes).await.unwrap(),
        ),
    ] {
        let _guard = client.mutex("a").lock().await.unwrap();
        let here = this_process(&operator).await;
        let shown = holder(&survey(&operator).await, "a");
        assert_eq!(shown, format!("billing@{here}, which does not answer"));
    }
}
