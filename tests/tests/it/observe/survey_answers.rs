//! Answers that are forged, malformed, huge or there twice, and what a survey makes of them (S-35).

use lock_runtime::admin::Survey;
use lock_runtime::store::Listening;
use serde_json::json;

use crate::observe::survey::lock;
use crate::prelude::*;

/// The client that the impostor claims to be.
const IMPOSTOR: &str = "6b1b36cb-04e6-4b3a-8d19-27b1f5ed7d3b";

/// A part of an answer, as clients publish it.
fn part(id: &str, number: u32, more: bool, names: &[&str]) -> String {
    let hold =
        |name: &&str| json!({ "hold": 1, "name": name, "kind": "mutex", "held_for": 1, "left": 2 });
    let client = json!({ "id": IMPOSTOR, "service": "impostor", "host": "h", "pid": 1, "started": 0, "version": "1" });
    let holds: Vec<_> = names.iter().map(hold).collect();
    json!({ "v": 1, "id": id, "client": client, "part": number, "holds": holds, "more": more })
        .to_string()
}

/// Publishes to each request what `answers` makes of its id.
struct Impostor(
    JoinHandle<()>,
    #[expect(dead_code, reason = "listens until it is dropped")] Listening,
);

impl Impostor {
    async fn start(server: &RedisServer, answers: fn(&str) -> Vec<String>) -> Self {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let (to, mut requests) = mpsc::unbounded_channel();
        let on_message = Arc::new(move |message: &[u8]| drop(to.send(message.to_vec())));
        let listening = store.listen(SURVEYS, on_message);
        store.listened(SURVEYS, SOON).await.unwrap();
        let task = lock_tests::spawn(async move {
            while let Some(request) = requests.recv().await {
                let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
                let id = request["id"].as_str().unwrap();
                for answer in answers(id) {
                    let channel = format!("{SURVEYS}:{id}");
                    store.publish(&channel, answer.as_bytes(), SOON).await.unwrap();
                }
            }
        });
        Self(task, listening)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn names(survey: &Survey) -> Vec<&str> {
    survey.locks.iter().map(|lock| lock.key.as_str()).collect()
}

/// How many holds the impostor has, and whether it has more.
fn impostors(survey: &Survey) -> (usize, bool) {
    let found = survey.clients.iter().find(|one| one.client.service == "impostor").unwrap();
    (found.holds, found.is_cut)
}

/// What is no answer to the request is passed over, and what comes twice counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_answer_is_passed_over() {
    let (server, client) = world().await;
    let _guard = client.mutex("order:1").lock().await.unwrap();
    let _impostor = Impostor::start(&server, |id| {
        let whole = part(id, 0, false, &["forged"]);
        vec![
            String::new(),
            "null".to_owned(),
            "[".repeat(1 << 20),
            whole.replace("\"v\":1", "\"v\":2"),
            part(IMPOSTOR, 0, false, &["of another request"]),
            // Too long for an answer, and otherwise one.
            part(id, 0, false, &[&"x".repeat(200_000)]),
            part(id, 0, false, &["a\nb", "", &"x".repeat(513)]),
            whole.clone(),
            whole,
        ]
    })
    .await;
    let survey = client.admin().survey().within(ms(500)).await.unwrap();
    assert_eq!((survey.clients.len(), survey.missing), (2, 0), "{survey:?}");
    assert_eq!(impostors(&survey).0, 3, "the first whole answer counts, and no other");
    assert_eq!(names(&survey), ["order:1"], "names that no lock has are no rows");
}

/// Parts count once each, whatever their order; an answer without its end makes its client a missing one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_count_once_each() {
    let (server, client) = world().await;
    let whole = Impostor::start(&server, |id| {
        let [first, last] = [part(id, 0, true, &["a"]), part(id, 1, false, &["b"])];
        vec![first.clone(), first.clone(), last, first]
    })
    .await;
    let survey = client.admin().survey().within(SOON).await.unwrap();
    assert_eq!((survey.missing, names(&survey)), (0, vec!["a", "b"]));
    assert_eq!(lock(&survey, "a").holders.len(), 1, "it came three times: {survey:?}");
    drop(whole);

    let reversed =
        Impostor::start(&server, |id| vec![part(id, 1, false, &["b"]), part(id, 0, true, &["a"])])
            .await;
    let ask = async || client.admin().survey().within(ms(500)).await.unwrap();
    eventually(SOON, "the first impostor is gone", async || ask().await.clients.len() == 2).await;
    assert_eq!(names(&ask().await), ["a", "b"]);
    drop(reversed);

    let _endless = Impostor::start(&server, |id| {
        (0..50).map(|number| part(id, number, true, &["a"])).collect()
    })
    .await;
    let survey = client.admin().survey().within(ms(500)).limit(10).await.unwrap();
    assert!(survey.missing >= 1 && !survey.is_complete, "{survey:?}");
    assert_eq!(impostors(&survey), (10, true), "no more than was asked for");
}

/// All servers of a quorum deliver a request and its answers: a client answers once, and is listed once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_hears_each_client_once() {
    let servers =
        [RedisServer::start().await, RedisServer::start().await, RedisServer::start().await];
    let urls = servers.each_ref().map(RedisServer::url);
    let connect =
        async || LockClient::builder().connect_quorum(&urls, RestartGuard::Off).await.unwrap();
    let (holder, asking) = (connect().await, connect().await);
    // More than one part.
    const HOLDS: usize = 300;
    let name = |number: usize| format!("{}{number}", "x".repeat(500));
    let locks = (0..HOLDS).map(|number| holder.mutex(name(number)).lock());
    let _held: Vec<_> = join_all(locks).await.into_iter().map(Result::unwrap).collect();
    for server in &servers {
        server.reset_stats().await;
    }
    for _ in 0..2 {
        let survey = asking.admin().survey().clients_only().within(SOON).await.unwrap();
        assert_eq!((survey.clients.len(), survey.missing), (2, 0), "{survey:?}");
        let holds: usize = survey.clients.iter().map(|one| one.holds).sum();
        assert_eq!(holds, HOLDS);
        assert!(survey.locks.iter().all(|lock| lock.holders.len() == 1));
    }
    // Long enough for answers that nothing waits for.
    sleep(secs(1)).await;
    let published = servers[0].command_calls().await.get("publish").copied().unwrap_or(0);
    assert!(published <= 2 * (1 + 1 + 4), "{published} messages on one server for two surveys");
}

/// The name that was asked for is found among thousands that it begins, though only the store knows it. Without the store,
/// the clients' part is all there is, and the server is asked nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_name_is_found_among_those_that_it_begins() {
    let (server, client) = world().await;
    let java = |number: usize| format!("3b241101-e2bb-4255-8caf-4136c566a962:{number}");
    let raw = server.client();
    for number in 0..3_000 {
        raw.cmd(&["HSET", &format!("order:1{number}"), &java(number), "1"]).await;
    }
    for number in 0..5 {
        let name = format!("order:{number}");
        raw.cmd(&["HSET", &name, &java(number), "1"]).await;
        let survey = client.admin().survey().prefix(&name).limit(10).await.unwrap();
        assert_eq!(lock(&survey, &name).holders[0].thread, Some(number as u64));
    }
    let _guard = client.mutex("own").lock().await.unwrap();
    // A client listens soon after it has connected.
    soon!("it listens", server.pubsub_numsub(SURVEYS).await > 0);
    server.reset_stats().await;
    let survey = client.admin().survey().clients_only().await.unwrap();
    assert_eq!((names(&survey), survey.is_complete), (vec!["own"], true));
    let calls = server.command_calls().await;
    assert!(!["scan", "evalsha", "eval"].iter().any(|it| calls.contains_key(*it)), "{calls:?}");
}

/// No time and no prefix makes a survey panic or wait for answers that cannot come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extreme_surveys_end() {
    let (_server, client) = world().await;
    let _guard = client.mutex("order:1").lock().await.unwrap();
    let survey = timeout(SOON, client.admin().survey().within(Duration::MAX)).await.unwrap();
    assert_eq!(names(&survey.unwrap()), ["order:1"]);
    let none = client.admin().survey().within(Duration::ZERO).limit(0).await.unwrap();
    assert!(!none.is_complete, "{none:?}");
    for prefix in ["x".repeat(513), "x".repeat(100_000), "a\nb".to_owned()] {
        let survey = client.admin().survey().prefix(prefix).within(6 * SOON);
        let error = timeout(SOON, survey).await.expect("it waits").unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    }
    for prefix in ["order:{", "order:", ""] {
        assert!(client.admin().survey().prefix(prefix).await.is_ok(), "{prefix}");
    }
}
