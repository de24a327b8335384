//! What an operator does: stopping, and changing the configuration.

use rustix::process::Signal;
use tempfile::TempDir;

use crate::tower::orders::shop::{BOUND, Shop, log_file, money, spawn};
use crate::tower::prelude::*;

/// A payment that the service has begun to handle; gives the stream to read the answer from.
///
/// It asks before it sends the body: the service says "go on" when the handler wants the body, and
/// from there on a graceful shutdown counts the request.
async fn begin_payment(shop: &Shop) -> TcpStream {
    let mut stream = TcpStream::connect(&shop.addresses[0]).await.unwrap();
    let head = "POST /orders/7/pay HTTP/1.1\r\nhost: shop\r\nexpect: 100-continue\r\n\
                content-type: application/json\r\ncontent-length: 12\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = *b"HTTP/1.1 100 Continue\r\n\r\n";
    timeout(BOUND, stream.read_exact(&mut read)).await.unwrap().unwrap();
    assert_eq!(&read, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(br#"{"cents":10}"#).await.unwrap();
    stream
}

/// The answer, for which the connection is closed.
async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    timeout(BOUND, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

/// Begins payments for one order, asks their process to stop when the order is locked, and gives the
/// answers and whether the process ended well.
async fn stop_in_the_middle(shop: &mut Shop, payments: usize) -> (Vec<String>, bool) {
    let mut streams = Vec::new();
    for _ in 0..payments {
        streams.push(begin_payment(shop).await);
    }
    eventually(BOUND, "the order is locked", async || !shop.locked().await.is_empty()).await;
    shop.signal(0, Signal::TERM);
    let answers = join_all(streams.into_iter().map(answer)).await;
    let success = shop.processes[0].wait(BOUND).await.success();
    assert!(TcpStream::connect(&shop.addresses[0]).await.is_err(), "it still listens");
    (answers, success)
}

fn count(answers: &[String], status: &str) -> usize {
    answers.iter().filter(|answer| answer.starts_with(&format!("HTTP/1.1 {status} "))).count()
}

/// One holds the lock and the others wait for it: every payment that was accepted is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_to_stop_it_finishes_what_it_accepted() {
    let mut shop = Shop::open(&[("CARD_MS", "100"), ("GRACE_MS", "30000")]).await;
    let (answers, success) = stop_in_the_middle(&mut shop, 8).await;
    assert_eq!(count(&answers, "200"), 8, "{answers:?}");
    assert!(success, "{}", shop.log(0));
    assert_eq!(shop.locked().await, [""; 0]);
    assert_eq!(shop.balance(7).await, 80);
}

/// When the grace is over, those who wait are sent away, unpaid; the one in the middle finishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_takes_too_long_sends_the_line_away() {
    let mut shop = Shop::open(&[("CARD_MS", "3000"), ("GRACE_MS", "2000")]).await;
    let (answers, success) = stop_in_the_middle(&mut shop, 4).await;
    let counts = (count(&answers, "200"), count(&answers, "503"));
    assert_eq!(counts, (1, 3), "{answers:?} {}", shop.log(0));
    assert!(success, "{}", shop.log(0));
    assert_eq!(shop.locked().await, [""; 0]);
    assert_eq!(shop.balance(7).await, 10);
}

/// Who does not finish at all is cut off, and the exit code says that something was left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_has_an_end() {
    let mut shop = Shop::open(&[("CARD_MS", "600000"), ("GRACE_MS", "300")]).await;
    let stream = begin_payment(&shop).await;
    eventually(BOUND, "the order is locked", async || !shop.locked().await.is_empty()).await;
    shop.signal(0, Signal::TERM);
    assert!(!shop.processes[0].wait(BOUND).await.success());
    assert!(shop.log(0).contains("still_held: 1"), "{}", shop.log(0));
    drop(stream);
}

const PATIENT: &str = "
[lock]
namespace = 'shop'
[lock.policies.payments]
wait = '1m'
[lock.policies.refunds]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_read_again() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("orders.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write(PATIENT);
    let shop = Shop::open(&[("CONFIG", file.to_str().unwrap())]).await;
    let logged = async |what: &str| {
        eventually(BOUND, what, async || shop.log(0).contains(what)).await;
    };
    let ours = LockClient::builder().namespace("shop").connect(&shop.redis.url()).await.unwrap();
    let held = ours.mutex("order:7").lock().await.unwrap();
    let busy = async || {
        let answer = shop.send(0, money("pay", 7, 1)).await;
        assert_eq!(answer.0, StatusCode::CONFLICT);
    };

    write(&PATIENT.replace("1m", "none"));
    shop.signal(0, Signal::HUP);
    logged(r#"changed=["lock.policies.payments"]"#).await;
    // Well before the minute.
    timeout(secs(30), busy()).await.expect("the new wait is in effect");

    write(&PATIENT.replace("1m", "long"));
    shop.signal(0, Signal::HUP);
    logged("lock.policies.payments.wait: invalid value").await;
    // The name of the policy is in an attribute.
    write(&PATIENT.replace("payments", "payment"));
    shop.signal(0, Signal::HUP);
    logged(r#"no lock policy "payments": did you mean "payment"?"#).await;
    // And what a route's key is made of is in its path.
    write(&format!(
        "{PATIENT}\n[[lock.routes]]\npath = '/a/{{id}}'\nkey = '{{path.nr}}'\npolicy = 'refunds'"
    ));
    shop.signal(0, Signal::HUP);
    logged("the new one is refused: lock.routes[0].key: ").await;
    timeout(secs(30), busy()).await.expect("the old one has stayed");

    held.release().await.unwrap();
    assert_eq!(shop.send(0, money("pay", 7, 1)).await.0, StatusCode::OK);
}

/// An attribute without its policy, a file that is not there, a variable that is a mistake: found at the start. Variables
/// without the program's own prefix are none of its configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_configuration_is_no_start() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("orders.toml");
    fs::write(&file, PATIENT.replace("payments", "payment")).unwrap();
    let nowhere = directory.path().join("nowhere.toml");
    let (file, nowhere) = (file.to_str().unwrap(), nowhere.to_str().unwrap());
    for (n, ((variable, value), reason)) in [
        (("CONFIG", file), "service::pay cannot be locked: no lock policy \"payments\""),
        (("CONFIG", nowhere), "nowhere.toml"),
        (("MYAPP_LOCK__DIR", "/var/lock"), "lock.dir: unknown field"),
    ]
    .into_iter()
    .enumerate()
    {
        let envs = [(variable, value), ("MYAPP_LOCK__URL", "memory:")];
        let mut process = spawn(n, directory.path(), "memory:", &envs);
        assert!(!process.wait(BOUND).await.success());
        let log = fs::read_to_string(log_file(directory.path(), n)).unwrap();
        assert!(log.contains(reason), "{log}");
    }
    let shop = Shop::open(&[("LOCK_DIR", "/var/lock"), ("LOCK_URL", "nonsense")]).await;
    assert_eq!(shop.send(0, money("pay", 7, 1)).await.0, 200);
}
