//! A survey names the process of a holder that does not answer, by the name of its connection (S-35).

use lock_runtime::admin::Survey;

use crate::observe::survey::lock;
use crate::prelude::*;
use crate::support::workers::{Workers, told};

/// Who has the lock, as people read it.
fn holder(survey: &Survey, name: &str) -> String {
    let lock = lock(survey, name);
    let [holder] = &lock.holders[..] else { panic!("{lock:?}") };
    holder.to_string()
}

async fn survey(client: &LockClient) -> Survey {
    client.admin().survey().within(ms(500)).await.unwrap()
}

/// A client that answers no surveys, as one that hangs.
fn silent(service: &str) -> lock_runtime::LockClientBuilder {
    LockClient::builder().service(service).survey(false)
}

/// `…@host:pid` of this process, as surveys call it.
async fn this_process(client: &LockClient) -> String {
    let survey = client.admin().survey().within(SOON).await.unwrap();
    let own = survey.clients.iter().find(|one| one.client.id == client.id().to_string()).unwrap();
    own.client.to_string().split_once('@').unwrap().1.to_owned()
}

/// How often clients have asked for the names of connections.
async fn lists(server: &RedisServer) -> u64 {
    let info: String = server.client().get(&["INFO", "commandstats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_client|list:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// An operator who meets a frozen holder for the first time learns the process, and knows it still when the server has
/// closed its connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_holder_is_named() {
    let world = Workers::new().await;
    let mut worker = world.worker().await;
    told(&mut worker, "lock mutex stopped", "locked ").await;
    worker.sigstop();

    // Neither has heard of it before.
    let operator = connect(&world.server).await;
    let later = connect(&world.server).await;
    let host = this_process(&operator).await;
    let host = host.split_once(':').unwrap().0;
    let expected = format!("worker@{host}:{}, which does not answer", worker.id());
    assert_eq!(holder(&survey(&operator).await, "stopped"), expected);

    // As a server does that the client does not read from. The connections of the others are made again.
    assert!(world.server.client_kill(ClientType::PubSub).await > 0);
    world.server.client_kill(ClientType::Normal).await;
    let named = async || match operator.admin().survey().within(ms(500)).await {
        Ok(survey) => holder(&survey, "stopped") == expected,
        Err(_) => false,
    };
    eventually(SOON, "the name is kept", named).await;
    soon!("a client that comes later learns only the id", {
        let survey = later.admin().survey().within(ms(500)).await;
        survey.is_ok_and(|survey| holder(&survey, "stopped").starts_with("client "))
    });
    worker.sigkill();
}

/// A name that a client gave in an earlier survey needs no right, and asks the server for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_fell_silent_keeps_its_name() {
    let world = Workers::new().await;
    let mut worker = world.worker().await;
    told(&mut worker, "lock mutex stopped", "locked ").await;
    let name = holder(&world.client.admin().survey().within(SOON).await.unwrap(), "stopped");
    assert!(name.ends_with(&format!(":{}", worker.id())), "{name}");
    worker.sigstop();
    let shown = holder(&survey(&world.client).await, "stopped");
    assert_eq!(shown, format!("{name}, which does not answer"));
    assert_eq!(lists(&world.server).await, 0, "all holders have answered, or were known");
    worker.sigkill();
}

/// A user without the right sees the beginning of the id, as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_the_id_is_shown() {
    let server = RedisServer::start().await;
    let rule = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-client|list"];
    server.client().cmd(&rule).await;
    let url = server.url().replace("redis://", "redis://locks:secret@");
    let operator = LockClient::connect(&url).await.unwrap();
    let client = silent("billing").connect(&server.url()).await.unwrap();
    let _guard = client.mutex("a").lock().await.unwrap();
    let id = client.id().to_string();
    let survey = survey(&operator).await;
    assert_eq!(holder(&survey, "a"), format!("client {}…, which does not answer", &id[..8]));
    assert_eq!(survey.not_listed.map(|error| error.to_string()), None);
}

/// The name has what the server allows in it; and a store without connections shows the id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_any_name_is_shown() {
    let (server, operator) = world().await;
    let client = silent("bücher & more\n").connect(&server.url()).await.unwrap();
    let _guard = client.mutex("a").lock().await.unwrap();
    let here = this_process(&operator).await;
    let shown = holder(&survey(&operator).await, "a");
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
    let operator = LockClient::builder().connect_sentinel("locks", sentinels.urls()).await.unwrap();
    let client = silent("billing").connect_sentinel("locks", sentinels.urls()).await.unwrap();
    is_named(&operator, &client).await;

    let cluster = RedisCluster::start().await;
    let operator = LockClient::builder().connect_cluster(cluster.urls()).await.unwrap();
    let client = silent("billing").connect_cluster(cluster.urls()).await.unwrap();
    is_named(&operator, &client).await;
}

async fn is_named(operator: &LockClient, client: &LockClient) {
    let _guard = client.mutex("a").lock().await.unwrap();
    let here = this_process(operator).await;
    let shown = holder(&survey(operator).await, "a");
    assert_eq!(shown, format!("billing@{here}, which does not answer"));
}
