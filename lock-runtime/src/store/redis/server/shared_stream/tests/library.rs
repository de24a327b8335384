//! With the client library's own task, and a server that answers ECHO.

use std::io::{self, ErrorKind};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisConnectionInfo};
use tokio::task::JoinSet;

use super::*;

const PUSH: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n";

/// A connection of the client library, its stream, and the counts of pushed messages.
#[derive(Clone)]
struct Client {
    connection: MultiplexedConnection,
    shared: Arc<SharedStream>,
    pushed: Arc<AtomicUsize>,
    heard: Arc<AtomicUsize>,
}

impl Client {
    async fn connect() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (pushed, heard) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (pushes, hears) = (Arc::clone(&pushed), Arc::clone(&heard));
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let ended = serve(stream, &pushes).await.unwrap_err();
            let is_end =
                matches!(ended.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
            assert!(is_end || ended.kind() == ErrorKind::BrokenPipe, "{ended}");
        });
        let (shared, of_task) = SharedStream::new(TcpStream::connect(address).await.unwrap());
        let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(
            move |push: PushInfo| {
                hears.fetch_add(usize::from(push.data.len() == 2), Ordering::SeqCst);
                Ok::<_, redis::aio::SendError>(())
            },
        );
        let connecting = MultiplexedConnection::new_with_config(&info, of_task, config);
        let (connection, task) = connecting.await.unwrap();
        tokio::spawn(task);
        let mut client = Self { connection, shared, pushed, heard };
        assert_eq!(client.through_task("first").await, text("first"));
        client
    }

    async fn through_task(&mut self, what: &str) -> Value {
        let call = self.shared.call();
        let answer = self.connection.send_packed_command(&echo(what)).await.unwrap();
        call.answered();
        answer
    }

    /// Asks for an echo, past the task if possible; returns whether it was.
    async fn ask(&mut self, what: &str) -> bool {
        let request = echo(what).get_packed_command();
        let shared = Arc::clone(&self.shared);
        let exchange = shared.exchange(|to| to.extend_from_slice(&request));
        match exchange {
            Some(((), exchange)) => assert_eq!(exchange.await.unwrap(), text(what)),
            None => {
                assert_eq!(self.through_task(what).await, text(what));
                return false;
            }
        }
        true
    }
}

fn echo(what: &str) -> Cmd {
    let mut cmd = redis::cmd("ECHO");
    cmd.arg(what);
    cmd
}

/// Answers each command, pushes messages between the answers, and sends all in pieces.
async fn serve(mut stream: TcpStream, pushed: &AtomicUsize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut frames, mut scanned, mut received) = (Frames::default(), 0, Vec::new());
    loop {
        while let Some(end) = frames.end_in(&received[scanned..]) {
            let mut answer = Vec::new();
            let rest = received.split_off(scanned + end);
            let Ok(Value::Array(parts)) = redis::parse_redis_value(&received) else {
                panic!("no command")
            };
            match &parts[..] {
                [Value::BulkString(name), Value::BulkString(what)] if name == b"ECHO" => {
                    for _ in 0..fastrand::usize(0..7).saturating_sub(4) {
                        pushed.fetch_add(1, Ordering::SeqCst);
                        answer.extend_from_slice(PUSH);
                    }
                    answer.extend(format!("${}\r\n", what.len()).into_bytes());
                    answer.extend_from_slice(what);
                    answer.extend_from_slice(b"\r\n");
                }
                [Value::BulkString(name), ..] if name == b"HELLO" => {
                    answer.extend_from_slice(b"%1\r\n$5\r\nproto\r\n:3\r\n");
                }
                _ => answer.extend_from_slice(b"+OK\r\n"),
            }
            (received, scanned) = (rest, 0);
            send_in_pieces(&mut stream, &answer).await?;
        }
        scanned = received.len();
        if stream.read_buf(&mut received).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn send_in_pieces(stream: &mut TcpStream, mut answer: &[u8]) -> io::Result<()> {
    if fastrand::u8(..) < 200 {
        return stream.write_all(answer).await;
    }
    while !answer.is_empty() {
        let (piece, rest) = answer.split_at(fastrand::usize(1..=answer.len()));
        stream.write_all(piece).await?;
        tokio::task::yield_now().await;
        answer = rest;
    }
    Ok(())
}

#[tokio::test]
async fn the_client_library_writes_the_rest() {
    let mut client = Client::connect().await;
    let long = "x".repeat(20_000_000);
    let asked = timeout(LIMIT, client.ask(&long)).await.expect("no answer");
    assert!(asked, "the task sent it");
}

/// Callers that come and go get their own answers, and no pushed message is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn every_caller_gets_its_own_answer() {
    let client = Client::connect().await;
    let mut callers = JoinSet::new();
    for caller in 0..3 {
        let mut client = client.clone();
        callers.spawn(async move {
            let mut alone = 0;
            for number in 0..2000 {
                let length = if number % 500 == 0 { 3_000_000 } else { 1 };
                let what = format!("{caller}:{number}:{}", "x".repeat(length));
                if fastrand::u8(..) < 16 {
                    let soon = Duration::from_micros(fastrand::u64(0..300));
                    let _ = timeout(soon, client.ask(&what)).await;
                } else {
                    alone += usize::from(client.ask(&what).await);
                }
                if fastrand::bool() {
                    tokio::task::yield_now().await;
                }
            }
            alone
        });
    }
    let mut alone = 0;
    while let Some(caller) = timeout(3 * LIMIT, callers.join_next()).await.expect("a caller waits")
    {
        alone += caller.unwrap();
    }
    let mut client = client;
    client.through_task("last").await;
    assert_eq!(client.heard.load(Ordering::SeqCst), client.pushed.load(Ordering::SeqCst));
    assert!(alone > 100, "only {alone} past the task");
}
