//! A server that answers scripts with replies of the wrong shape.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_runtime::{Lease, LockError};
use lock_tests::ScriptedServer;
use lock_tests::scripted_server::Scripted;
use tokio::time::timeout;

use super::*;

/// Below every token that the server says, and far above any number in a wrong reply.
const FIRST_TOKEN: u64 = 1 << 50;

/// A server that answers scripts with this reply, or, without one, as it should: with a token or the number of notified
/// processes. In the reply `{n}` stands for the number of the call, and `{b}` for that as a bulk string.
async fn impostor(wrong: Arc<Mutex<Option<Vec<u8>>>>) -> ScriptedServer {
    let token = Mutex::new(FIRST_TOKEN);
    ScriptedServer::start(move |command| {
        let answer = match (&*command.words[0], &*wrong.lock().unwrap()) {
            ("EVALSHA", Some(wrong)) => Scripted::Raw(filled(wrong, command.words.last().unwrap())),
            // A release of a mutex has one key.
            ("EVALSHA", None) if command.words[2] == "1" => Scripted::Script(":0".to_owned()),
            ("EVALSHA", None) => {
                let mut token = token.lock().unwrap();
                *token += 1;
                Scripted::Script(token.to_string())
            }
            _ => Scripted::Usual,
        };
        async { answer }.boxed()
    })
    .await
}

fn bulk(text: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// The reply with the number of the call in it.
fn filled(reply: &[u8], number: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = reply;
    while let Some(at) = rest.windows(3).position(|part| part == b"{n}" || part == b"{b}") {
        bytes.extend(&rest[..at]);
        match rest[at + 1] {
            b'n' => bytes.extend(number.as_bytes()),
            _ => bytes.extend(bulk(number.as_bytes())),
        }
        rest = &rest[at + 3..];
    }
    bytes.extend(rest);
    bytes
}

/// Replies that no script gives. In the text, `;` ends a line.
fn wrong() -> Vec<Vec<u8>> {
    let replies = "$-1;|_;|:1;|:{n};|+OK;|+{n} 7;|,1.5;|#t;|({n};|-ERR no;|*0;|*-1;|%0;|~0;|$0;;|*1;{b}|\
        *2;$1;7;$1;7;|*2;:{n};$1;7;|*2;+{n};$1;7;|*3;{b}$1;7;$1;8;|*2;{b}$1;x;|*2;{b}$2;-7;|*2;{b}_;|\
        *2;{b}#t;|*2;{b},7;|*2;{b}(7;|*2;{b}+7;|*2;{b}*0;|*2;{b}*3;:1;:2;:3;|*2;{b}-ERR x;|\
        *2;{b}$20;18446744073709551616;|~2;{b}$1;7;|%1;{b}$1;7;|?what;|$2147483647;7;";
    let lines = |reply: &str| reply.replace(';', "\r\n").into_bytes();
    let mut wrong: Vec<_> = replies.split('|').map(lines).collect();
    assert_eq!(wrong.len(), 35);
    wrong.push(b"-WEIRD \xff\r\n".to_vec());
    wrong.push([&b"*1\r\n".repeat(500)[..], b":7\r\n"].concat());
    wrong.push(bulk(&vec![b'7'; 1 << 20]));
    wrong.push([&b"*100000\r\n"[..], &b":7\r\n".repeat(100_000)].concat());
    wrong
}

/// Asks for locks while the server answers so, and then once more while it answers right.
async fn asks(reply: Vec<u8>) {
    let shown = reply[..reply.len().min(60)].escape_ascii().to_string();
    let answer = Arc::new(Mutex::new(None));
    let server = impostor(Arc::clone(&answer)).await;
    // What may be left of each attempt is given up after its lease, until when it shares scripts with other requests.
    let options = LockOptions::new().wait(ms(250)).lease(Lease::Fixed(ms(500)));
    let client = LockClient::builder().command_timeout(ms(400)).store_patience(ms(250));
    let client = client.options(options);
    let client = client.connect(&server.url()).await.unwrap();
    *answer.lock().unwrap() = Some(reply);
    for kind in ["mutex", "try", "fair", "write"] {
        let asked = async {
            match kind {
                "mutex" => client.mutex("wrong").lock().await.map(Some),
                "try" => client.mutex("wrong").try_lock().await,
                "fair" => client.fair_mutex("wrong").lock().await.map(Some),
                _ => client.rw_lock("wrong").write().await.map(Some),
            }
        };
        let outcome = timeout(SOON, asked).await.unwrap_or_else(|_| panic!("{shown}: hangs"));
        assert!(!matches!(outcome, Ok(Some(_))), "{shown}: granted as {kind}");
    }
    *answer.lock().unwrap() = None;
    let granted = async {
        loop {
            match client.mutex("right").lock().await {
                Ok(guard) => return guard,
                Err(LockError::Store(_) | LockError::Timeout { .. }) => {}
                Err(error) => panic!("{shown}: {error:?}"),
            }
        }
    };
    let guard = timeout(SOON, granted).await.unwrap_or_else(|_| panic!("{shown}: no recovery"));
    assert!(guard.token().get() > FIRST_TOKEN, "{shown}: a token that the server did not say");
}

/// No reply but the right one is a grant; the client gives up within its patience, and works again once the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_of_the_wrong_shape_grants_nothing() {
    watch_panics();
    let asked = wrong().into_iter().map(|reply| tokio::spawn(asks(reply)));
    for outcome in join_all(asked).await {
        outcome.unwrap();
    }
    no_panics();
}
