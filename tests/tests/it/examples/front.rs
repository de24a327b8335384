//! The examples that a reader meets first, with nothing installed.

use super::*;
use crate::tower::prelude::{AsyncReadExt, AsyncWriteExt, TcpStream};

#[tokio::test]
async fn quickstart() {
    let lines = run("quickstart", &[]).await;
    assert_eq!(numbers(line(&lines, "with the lock:"))[..3], [50, 50, 0]);
    let without = numbers(line(&lines, "without the lock:"));
    assert!(without[2] > 0, "nothing is lost without the lock: {lines:#?}");
}

#[tokio::test]
async fn console() {
    let mut program = start("console", &[("PORT", "0")]);
    let said = program.next_line(BOUND).await;
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let page = send(address, "GET / HTTP/1.1", "").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<html"), "{page}");
    let what = "the page names the services and what they lock";
    eventually(BOUND, what, async || {
        let survey = send(address, "GET /api/survey HTTP/1.1", "").await;
        ["billing", "mail", "invoice:numbers"].iter().all(|part| survey.contains(part))
    })
    .await;
    assert!(end(&mut program, Signal::INT).await.success());
}

#[tokio::test]
async fn orders() {
    let mut program = start("orders", &[("PORT", "0")]);
    let said = program.next_line(BOUND).await;
    let address = said.strip_prefix("listening on ").unwrap();
    for (what, cents) in [("pay", 1250), ("refund", 250)] {
        let request = format!("POST /orders/42/{what} HTTP/1.1");
        let answer = send(address, &request, &format!("{{\"cents\":{cents}}}")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let order = send(address, "GET /orders/42 HTTP/1.1", "").await;
    assert!(order.ends_with(r#"{"order":"42","cents":1000}"#), "{order}");
    assert!(end(&mut program, Signal::TERM).await.success());
}

/// Sends one request, and returns head and body of its answer.
async fn send(address: &str, request: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "{request}\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let answer = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    timeout(BOUND, answer).await.expect("an answer in time")
}
