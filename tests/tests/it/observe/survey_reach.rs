//! Whom a survey reaches, and that it never passes for complete when it has not reached all (S-35).

use lock_runtime::admin::Survey;

use crate::observe::survey::waits;
use crate::prelude::*;

async fn in_namespace(server: &RedisServer, name: &str) -> LockClient {
    LockClient::builder().namespace(name).service(name).connect(&server.url()).await.unwrap()
}

/// The services that answer a client, once that many listen.
async fn services(client: &LockClient, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    eventually(SOON, "they answer", async || {
        let survey = client.admin().survey().within(ms(500)).await.unwrap();
        found = survey.clients.iter().map(|one| one.client.service.clone()).collect();
        found.len() == count
    })
    .await;
    found
}

/// Holds one lock around the wait for another.
fn nested(client: &LockClient, outer: LockGuard, inner: &str) -> JoinHandle<()> {
    let inner = client.mutex(inner.to_owned());
    lock_tests::spawn(async move { drop(outer.run(inner.lock()).await) })
}

fn holder(survey: &Survey, name: &str) -> Option<String> {
    let lock = survey.locks.iter().find(|lock| lock.key.as_str() == name)?;
    Some(lock.holders.first()?.client.as_ref()?.service.clone())
}

/// A client without a namespace surveys all: holders in namespaces are healthy ones, and their deadlocks are found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survey_reaches_every_namespace() {
    let server = RedisServer::start().await;
    let (one, two) = (in_namespace(&server, "shop").await, in_namespace(&server, "shop").await);
    let other = in_namespace(&server, "crm").await;
    let asking = LockClient::builder().survey(false).connect(&server.url()).await.unwrap();
    assert_eq!(services(&asking, 3).await, ["crm", "shop", "shop"]);

    let _crm = other.mutex("order:1").lock().await.unwrap();
    let (a, b) = (one.mutex("a").lock().await.unwrap(), two.mutex("b").lock().await.unwrap());
    let tasks = [nested(&one, a, "b"), nested(&two, b, "a")];
    waits(&one, 1).await;
    waits(&two, 1).await;
    for clients_only in [false, true] {
        let survey = asking.admin().survey().within(SOON);
        let survey = if clients_only { survey.clients_only() } else { survey }.await.unwrap();
        assert!(survey.is_complete, "{survey:?}");
        assert_eq!(holder(&survey, "crm:order:1").as_deref(), Some("crm"));
        assert_eq!(survey.deadlocks().len(), 1, "{survey:?}");
    }
    // Within a namespace, the others are none of its business, and names are whole ones.
    let survey = one.admin().survey().prefix("a").within(SOON).await.unwrap();
    let names: Vec<_> = survey.locks.iter().map(|lock| lock.key.as_str()).collect();
    assert_eq!((survey.clients.len(), names), (2, vec!["shop:a"]));
    tasks.iter().for_each(JoinHandle::abort);
}

/// A user that may use the channels of its namespace only is not reached from outside; a survey says that it lacks a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_is_not_reached_is_missed() {
    let server = RedisServer::start().await;
    let user = ["ACL", "SETUSER", "shop", "reset", "on", ">secret", "~*", "&*shop:*", "+@all"];
    server.client().cmd(&user).await;
    let url = format!("redis://shop:secret@127.0.0.1:{}", server.port());
    let builder = LockClient::builder().namespace("shop").service("shop");
    let shop = builder.connect(&url).await.unwrap();
    let _guard = shop.mutex("order:1").lock().await.unwrap();
    assert_eq!(services(&shop, 1).await, ["shop"], "in its namespace it is");
    let asking = LockClient::connect(&server.url()).await.unwrap();
    let survey = asking.admin().survey().within(ms(500)).await.unwrap();
    assert!(!survey.is_complete, "{survey:?}");
    let (guard, name) = (asking.mutex("x").lock().await.unwrap(), "shop:order:1");
    let _waits = nested(&asking, guard, name);
    waits(&asking, 1).await;
    let survey = asking.admin().survey().clients_only().within(ms(500)).await.unwrap();
    assert!(!survey.is_complete, "its wait is for a holder that has not answered: {survey:?}");
}

/// Over every store: a holder of this library that no client lists is one that was not asked, and Redisson's are not asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_no_client_accounts_for_makes_it_incomplete() {
    let server = RedisServer::start().await;
    let memory = MemoryStore::new();
    let on_server =
        async |answers| LockClient::builder().survey(answers).connect(&server.url()).await.unwrap();
    let in_memory = |answers| LockClient::builder().survey(answers).store(memory.peer()).unwrap();
    let pairs =
        [(on_server(false).await, on_server(true).await), (in_memory(false), in_memory(true))];
    for (silent, asking) in pairs {
        services(&asking, 1).await;
        let is_complete = async || asking.admin().survey().await.unwrap().is_complete;
        assert!(is_complete().await);
        for kind in ["mutex", "fair", "write", "semaphore"] {
            let hold = take_named(&silent, kind, LockOptions::default()).await.unwrap();
            assert!(!is_complete().await, "{kind}");
            hold.release().await.unwrap();
        }
        assert!(is_complete().await);
    }
    let java = "3b241101-e2bb-4255-8caf-4136c566a962:57";
    server.client().cmd(&["HSET", "java", java, "1"]).await;
    let survey = on_server(true).await.admin().survey().await.unwrap();
    assert!(survey.is_complete && survey.locks.len() == 1, "{survey:?}");
}

/// Databases of one server share its channels, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_are_surveyed_apart() {
    let server = RedisServer::start().await;
    let connect = async |database: u32| {
        let builder = LockClient::builder().service(format!("db{database}"));
        builder.connect(&format!("{}/{database}", server.url())).await.unwrap()
    };
    let clients = [connect(0).await, connect(1).await, connect(2).await];
    for (database, client) in clients.iter().enumerate() {
        assert_eq!(services(client, 1).await, [format!("db{database}")]);
    }
    let [_, one, two] = &clients;
    let (a, b) = (one.mutex("a").lock().await.unwrap(), two.mutex("b").lock().await.unwrap());
    let _elsewhere = [one.mutex("b").lock().await.unwrap(), two.mutex("a").lock().await.unwrap()];
    let tasks = [nested(one, a, "b"), nested(two, b, "a")];
    waits(one, 1).await;
    waits(two, 1).await;
    for client in &clients {
        let survey = client.admin().survey().within(SOON).await.unwrap();
        assert_eq!((survey.deadlocks(), survey.clients.len()), (&[][..], 1), "{survey:?}");
        assert!(survey.is_complete, "{survey:?}");
    }
    tasks.iter().for_each(JoinHandle::abort);
}

/// Among very many keys of other programs a survey ends after its time and its share of the server, and says so; what clients
/// name is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_keys_do_not_make_a_survey_endless() {
    let server = RedisServer::start().await;
    server.client().cmd(&["DEBUG", "POPULATE", "400000"]).await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let _guard = client.mutex("order:1").lock().await.unwrap();
    soon!("it listens", server.pubsub_numsub(SURVEYS).await > 0);
    server.reset_stats().await;
    let survey = client.admin().survey().within(SOON).await.unwrap();
    let scans = server.command_calls().await.get("scan").copied().unwrap_or(0);
    assert!(scans <= 1_000, "{scans} calls of SCAN");
    assert!(!survey.is_complete, "not all keys were looked at");
    assert_eq!(survey.locks.len(), 1, "{survey:?}");
}
