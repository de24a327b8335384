//! A server that answers scripts with replies of the wrong shape.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use lock_runtime::{Lease, LockError};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::resp::read_command;
use super::*;

/// What the server answers to a script. In a wrong reply, `{n}` stands for the number of the call, and `{b}` for that as a
/// bulk string.
#[derive(Clone)]
enum Reply {
    /// As a server should, a token or the number of notified processes.
    Right,
    Wrong(Vec<u8>),
}

/// Below every token that the server says, and far above any number in a wrong reply.
const FIRST_TOKEN: u64 = 1 << 50;

/// A server that knows as much of Redis as a client needs to connect.
struct Impostor {
    port: u16,
    reply: Arc<Mutex<Reply>>,
}

impl Impostor {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let reply = Arc::new(Mutex::new(Reply::Right));
        let replies = Arc::clone(&reply);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&replies)));
            }
        });
        Self { port, reply }
    }

    fn answer(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }
}

async fn serve(stream: TcpStream, reply: Arc<Mutex<Reply>>) {
    let mut stream = BufReader::new(stream);
    let mut token = FIRST_TOKEN;
    while let Some(words) = read_command(&mut stream).await {
        let name = words[0].to_ascii_uppercase();
        let answer = match &name[..] {
            b"HELLO" => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
            b"PING" => b"+PONG\r\n".to_vec(),
            b"SUBSCRIBE" => {
                [&b">3\r\n$9\r\nsubscribe\r\n"[..], &bulk(&words[1]), b":1\r\n"].concat()
            }
            b"EVALSHA" => {
                let number = String::from_utf8(words.last().unwrap().clone()).unwrap();
                token += 1;
                match reply.lock().unwrap().clone() {
                    Reply::Right if is_release(&words) => bulk(format!("{number} :0").as_bytes()),
                    Reply::Right => bulk(format!("{number} {token}").as_bytes()),
                    Reply::Wrong(reply) => filled(&reply, &number),
                }
            }
            _ => b"+OK\r\n".to_vec(),
        };
        if stream.get_mut().write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A release of a mutex has an owner, a channel and the number of the call after its one key.
fn is_release(words: &[Vec<u8>]) -> bool {
    words.get(2).is_some_and(|keys| keys == b"1")
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

/// Replies that no script gives.
fn wrong() -> Vec<Vec<u8>> {
    let plain: [&[u8]; 36] = [
        b"$-1\r\n",
        b"_\r\n",
        b":1\r\n",
        b":{n}\r\n",
        b"+OK\r\n",
        b"+{n} 7\r\n",
        b",1.5\r\n",
        b"#t\r\n",
        b"({n}\r\n",
        b"-ERR no\r\n",
        b"-WEIRD \xff\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"%0\r\n",
        b"~0\r\n",
        b"$0\r\n\r\n",
        b"*1\r\n{b}",
        b"*2\r\n$1\r\n7\r\n$1\r\n7\r\n",
        b"*2\r\n:{n}\r\n$1\r\n7\r\n",
        b"*2\r\n+{n}\r\n$1\r\n7\r\n",
        b"*3\r\n{b}$1\r\n7\r\n$1\r\n8\r\n",
        b"*2\r\n{b}$1\r\nx\r\n",
        b"*2\r\n{b}$2\r\n-7\r\n",
        b"*2\r\n{b}_\r\n",
        b"*2\r\n{b}#t\r\n",
        b"*2\r\n{b},7\r\n",
        b"*2\r\n{b}(7\r\n",
        b"*2\r\n{b}+7\r\n",
        b"*2\r\n{b}*0\r\n",
        b"*2\r\n{b}*3\r\n:1\r\n:2\r\n:3\r\n",
        b"*2\r\n{b}-ERR x\r\n",
        b"*2\r\n{b}$20\r\n18446744073709551616\r\n",
        b"~2\r\n{b}$1\r\n7\r\n",
        b"%1\r\n{b}$1\r\n7\r\n",
        b"?what\r\n",
        b"$2147483647\r\n7\r\n",
    ];
    let mut wrong: Vec<_> = plain.iter().map(|reply| reply.to_vec()).collect();
    wrong.push([&b"*1\r\n".repeat(500)[..], b":7\r\n"].concat());
    wrong.push(bulk(&vec![b'7'; 1 << 20]));
    wrong.push([&b"*100000\r\n"[..], &b":7\r\n".repeat(100_000)].concat());
    wrong
}

/// Asks for locks while the server answers so, and then once more while it answers right.
async fn asks(reply: Vec<u8>) {
    let shown = reply[..reply.len().min(60)].escape_ascii().to_string();
    let server = Impostor::start().await;
    // What may be left of each attempt is given up after its lease, until when it shares scripts with other requests.
    let options = LockOptions::new().wait(ms(250)).lease(Lease::Fixed(ms(500)));
    let client = LockClient::builder().command_timeout(ms(400)).store_patience(ms(250));
    let client = client.options(options);
    let client = client.connect(&format!("redis://127.0.0.1:{}", server.port)).await.unwrap();
    server.answer(Reply::Wrong(reply));
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
    server.answer(Reply::Right);
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
