use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

mod library;
mod wakers;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

impl SharedStream {
    /// Begins to send a lone request.
    fn send(&self, request: &str) -> Option<Exchange<'_>> {
        let ((), exchange) = self.exchange(|to| to.extend_from_slice(request.as_bytes()))?;
        Some(exchange)
    }
}

/// A stream, its server, and what the client library's task reads.
struct Pair {
    shared: Arc<SharedStream>,
    server: TcpStream,
    to_task: mpsc::UnboundedSender<Vec<u8>>,
    read: mpsc::UnboundedReceiver<Vec<u8>>,
    reads: Arc<AtomicUsize>,
}

impl Pair {
    /// A pair whose task has had an answer, so that a lone request may be sent.
    async fn quiet() -> Self {
        let pair = Self::new().await;
        pair.shared.call().answered();
        pair
    }

    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (shared, mut of_task) = SharedStream::new(stream.unwrap());
        let ((to_task, mut writes), (passed, read)) =
            (mpsc::unbounded_channel::<Vec<u8>>(), mpsc::unbounded_channel());
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            loop {
                let write = tokio::select! {
                    count = of_task.read(&mut buffer) => {
                        let count = count.unwrap_or(0);
                        counted.fetch_add(1, Ordering::SeqCst);
                        if passed.send(buffer[..count].to_vec()).is_err() || count == 0 {
                            return;
                        }
                        continue;
                    }
                    Some(write) = writes.recv() => write,
                };
                of_task.write_all(&write).await.unwrap();
                of_task.flush().await.unwrap();
            }
        });
        Self { shared, server: accepted.unwrap().0, to_task, read, reads }
    }

    /// Begins to send a lone request.
    fn exchange(&self, request: &str) -> Option<Exchange<'_>> {
        self.shared.send(request)
    }

    async fn server_reads(&mut self, expected: &str) {
        let mut request = vec![0; expected.len()];
        timeout(LIMIT, self.server.read_exact(&mut request)).await.expect("no request").unwrap();
        assert_eq!(String::from_utf8_lossy(&request), expected);
    }

    async fn server_writes(&mut self, message: &str) {
        self.server.write_all(message.as_bytes()).await.unwrap();
    }

    async fn task_reads(&mut self, expected: &str) {
        let mut read = Vec::new();
        while read.len() < expected.len() {
            let more = timeout(LIMIT, self.read.recv()).await.expect("the task read nothing");
            read.extend(more.expect("the task has ended"));
        }
        assert_eq!(String::from_utf8_lossy(&read), expected);
    }

    /// The answer to a lone request that the server has got.
    async fn answer(&mut self, exchange: Exchange<'_>) -> RedisResult<Value> {
        timeout(LIMIT, exchange).await.expect("no answer")
    }
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

macro_rules! exchanged {
    ($pair:ident, $request:literal, $answer:literal) => {{
        let shared = Arc::clone(&$pair.shared);
        let exchange = shared.send(str::from_utf8($request).unwrap()).expect("not quiet");
        $pair.server_reads(str::from_utf8($request).unwrap()).await;
        $pair.server_writes($answer).await;
        $pair.answer(exchange).await
    }};
}

#[tokio::test]
async fn a_lone_request_passes_the_task_by() {
    let mut pair = Pair::quiet().await;
    for _ in 0..3 {
        assert_eq!(exchanged!(pair, b"PING\r\n", "$4\r\n42 7\r\n").unwrap(), text("42 7"));
        assert_eq!(exchanged!(pair, b"PING\r\n", "$-1\r\n").unwrap(), Value::Nil);
        let error = exchanged!(pair, b"PING\r\n", "-NOSCRIPT no\r\n").unwrap();
        assert!(matches!(error, Value::ServerError(error) if error.code() == "NOSCRIPT"));
    }
    assert_eq!(pair.reads.load(Ordering::SeqCst), 0, "the task read");
    // The relay is registered still.
    pair.server_writes(">1\r\n+a\r\n").await;
    pair.task_reads(">1\r\n+a\r\n").await;
}

#[tokio::test]
async fn the_task_gets_what_is_pushed_and_what_follows() {
    let mut pair = Pair::quiet().await;
    let answer = exchanged!(pair, b"PING\r\n", ">1\r\n+a\r\n>1\r\n+b\r\n+OK\r\n>1\r\n+c\r\n");
    assert_eq!(answer.unwrap(), Value::Okay);
    pair.task_reads(">1\r\n+a\r\n>1\r\n+b\r\n>1\r\n+c\r\n").await;
}

/// A release counts its own notification, for example, before it has ended.
#[tokio::test]
async fn what_is_pushed_before_an_answer_takes_effect_before_it() {
    let mut pair = Pair::quiet().await;
    for _ in 0..100 {
        let answer = exchanged!(pair, b"PING\r\n", ">1\r\n+a\r\n+OK\r\n");
        assert_eq!(answer.unwrap(), Value::Okay);
        let pushed = pair.read.try_recv().expect("the answer came first");
        assert_eq!(pushed, b">1\r\n+a\r\n");
    }
}

#[tokio::test]
async fn an_answer_may_be_long_and_come_in_pieces() {
    let mut pair = Pair::quiet().await;
    let long = "x".repeat(1_000_000);
    let (begin, end) = (format!(">1\r\n+a\r\n${}\r\n{}", long.len(), &long[1..]), "x\r\n");
    let shared = Arc::clone(&pair.shared);
    let mut exchange = shared.send("PING\r\n").unwrap();
    pair.server_writes(&begin).await;
    pair.task_reads(">1\r\n+a\r\n").await;
    let early = timeout(Duration::from_millis(20), &mut exchange).await;
    assert!(early.is_err(), "an answer without its end");
    pair.server_writes(end).await;
    assert_eq!(pair.answer(exchange).await.unwrap(), text(&long));
}

/// The task's request is behind the lone one, and so is its answer.
#[tokio::test]
async fn the_task_may_send_meanwhile() {
    let mut pair = Pair::quiet().await;
    let shared = Arc::clone(&pair.shared);
    let exchange = shared.send("PING\r\n").unwrap();
    let call = shared.call();
    pair.to_task.send(b"ECHO\r\n".to_vec()).unwrap();
    pair.server_reads("PING\r\nECHO\r\n").await;
    pair.server_writes("+1\r\n+2\r\n").await;
    pair.task_reads("+2\r\n").await;
    assert_eq!(pair.answer(exchange).await.unwrap(), Value::SimpleString("1".to_owned()));
    assert!(pair.exchange("PING\r\n").is_none(), "while the task has a call under way");
    call.answered();
    assert!(pair.exchange("PING\r\n").is_some());
}

#[tokio::test]
async fn the_answer_to_a_dropped_exchange_is_ignored() {
    let mut pair = Pair::quiet().await;
    drop(pair.exchange("PING\r\n").unwrap());
    assert!(pair.exchange("PING\r\n").is_none(), "its answer has not come");
    pair.to_task.send(b"ECHO\r\n".to_vec()).unwrap();
    pair.server_reads("PING\r\nECHO\r\n").await;
    pair.server_writes("+1\r\n+2\r\n").await;
    pair.task_reads("+2\r\n").await;
    assert_eq!(exchanged!(pair, b"PING\r\n", "+OK\r\n").unwrap(), Value::Okay);
}

/// A call that was dropped may be answered until a later one was.
#[tokio::test]
async fn no_lone_request_follows_a_dropped_call() {
    let pair = Pair::new().await;
    assert!(pair.exchange("PING\r\n").is_none(), "before the first answer");
    let earlier = pair.shared.call();
    drop(pair.shared.call());
    earlier.answered();
    assert!(pair.exchange("PING\r\n").is_none(), "the answer was to an earlier call");
    pair.shared.call().answered();
    assert!(pair.exchange("PING\r\n").is_some());
}

#[tokio::test]
async fn no_lone_request_begins_within_a_message() {
    let mut pair = Pair::quiet().await;
    pair.server_writes(">1\r\n+a").await;
    pair.task_reads(">1\r\n+a").await;
    assert!(pair.exchange("PING\r\n").is_none());
    pair.server_writes("bc\r\n").await;
    pair.task_reads("bc\r\n").await;
    assert_eq!(exchanged!(pair, b"PING\r\n", "+OK\r\n").unwrap(), Value::Okay);
}

// S-34.
#[tokio::test]
async fn a_caller_that_is_not_polled_delays_no_other() {
    let mut pair = Pair::quiet().await;
    let shared = Arc::clone(&pair.shared);
    let exchange = shared.send("PING\r\n").unwrap();
    pair.server_writes("+OK\r\n").await;
    pair.server_writes(">1\r\n+a\r\n").await;
    pair.task_reads(">1\r\n+a\r\n").await;
    pair.to_task.send(b"ECHO\r\n".to_vec()).unwrap();
    pair.server_reads("PING\r\nECHO\r\n").await;
    pair.server_writes("+2\r\n").await;
    pair.task_reads("+2\r\n").await;
    assert_eq!(pair.answer(exchange).await.unwrap(), Value::Okay);
}

#[tokio::test]
async fn the_task_writes_what_the_system_does_not_take_at_once() {
    let mut pair = Pair::quiet().await;
    let long = "x".repeat(20_000_000);
    let shared = Arc::clone(&pair.shared);
    let exchange = shared.send(&long).unwrap();
    assert!(!shared.state.lock().unwritten.is_empty(), "the system took all");
    // Behind the rest.
    pair.to_task.send(b"ECHO\r\n".to_vec()).unwrap();
    pair.server_reads(&[&long, "ECHO\r\n"].concat()).await;
    pair.server_writes("+1\r\n+2\r\n").await;
    pair.task_reads("+2\r\n").await;
    assert_eq!(pair.answer(exchange).await.unwrap(), Value::SimpleString("1".to_owned()));
}

#[tokio::test]
async fn a_closed_connection_fails_the_exchange_and_ends_the_task() {
    let mut pair = Pair::quiet().await;
    let shared = Arc::clone(&pair.shared);
    let exchange = shared.send("PING\r\n").unwrap();
    pair.server_writes("$10\r\nhal").await;
    pair.server.shutdown().await.unwrap();
    assert!(pair.answer(exchange).await.unwrap_err().is_io_error());
    let end = timeout(LIMIT, pair.read.recv()).await.expect("the task was not told");
    assert_eq!(end, Some(Vec::new()));
    timeout(LIMIT, pair.to_task.closed()).await.expect("the task goes on");
    assert!(pair.exchange("PING\r\n").is_none());
}

#[tokio::test]
async fn what_is_no_message_fails_the_exchange() {
    let mut pair = Pair::quiet().await;
    let answer = exchanged!(pair, b"PING\r\n", "HTTP/1.1 400\r\n");
    assert!(answer.unwrap_err().is_io_error());
    pair.task_reads("HTTP/1.1 400\r\n").await;
    assert!(pair.exchange("PING\r\n").is_none());
}

#[tokio::test]
async fn a_retired_connection_fails_the_exchange() {
    let pair = Pair::quiet().await;
    let exchange = pair.exchange("PING\r\n").unwrap();
    let ended = timeout(LIMIT, exchange);
    let (ended, ()) = tokio::join!(ended, async {
        tokio::task::yield_now().await;
        pair.shared.fail("retired");
    });
    assert!(ended.expect("it waits").unwrap_err().is_io_error());
}

/// The answer to an earlier request may still come.
#[tokio::test]
async fn a_retired_connection_takes_no_exchange() {
    let mut pair = Pair::quiet().await;
    let shared = Arc::clone(&pair.shared);
    let exchange = shared.send("PING\r\n").unwrap();
    pair.shared.fail("retired");
    assert!(pair.answer(exchange).await.unwrap_err().is_io_error());
    assert!(pair.exchange("PING\r\n").is_none());
    pair.server_reads("PING\r\n").await;
    pair.server_writes("+late\r\n").await;
    pair.task_reads("+late\r\n").await;
    shared.call().answered();
    assert!(pair.exchange("PING\r\n").is_none());
}

/// The driver of the runtime waits while an event is handled.
#[tokio::test]
async fn one_event_reads_a_limited_amount() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (server, (shared, mut of_task)) = (accepted.unwrap().0, SharedStream::new(stream.unwrap()));
    server.writable().await.unwrap();
    let mut begun = pin!(of_task.read_u8());
    assert!(begun.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    shared.call().answered();
    let exchange = shared.send("PING\r\n").unwrap();
    let sent = [&">1\r\n+a\r\n".repeat(AT_ONCE), "+OK\r\n"].concat();
    // Without a pause, in which an event would be handled.
    let mut written = 0;
    while written < 6 * AT_ONCE {
        written += server.try_write(&sent.as_bytes()[written..]).unwrap();
    }
    let read = async {
        while shared.state.lock().for_task.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shared.state.lock().for_task.len()
    };
    let read = timeout(LIMIT, read).await.expect("no event");
    assert!((AT_ONCE / 2..=2 * AT_ONCE).contains(&read), "{read} of {written}");
    // The task goes on where the event has stopped.
    let mut pushed = vec![0; sent.len() - "+OK\r\n".len()];
    pushed[0] = timeout(LIMIT, begun).await.expect("the task waits").unwrap();
    let all = async {
        let write = async {
            while written < sent.len() {
                server.writable().await.unwrap();
                written += server.try_write(&sent.as_bytes()[written..]).unwrap_or(0);
            }
        };
        tokio::join!(of_task.read_exact(&mut pushed[1..]), write).0.unwrap();
    };
    timeout(LIMIT, all).await.expect("the task waits");
    assert_eq!(pushed, sent.as_bytes()[..pushed.len()]);
    let mut more = [0];
    let (answer, _) = tokio::join!(timeout(LIMIT, exchange), async {
        timeout(Duration::from_millis(20), of_task.read(&mut more)).await.unwrap_err()
    });
    assert_eq!(answer.expect("no answer").unwrap(), Value::Okay);
}

#[tokio::test]
async fn a_long_message_leaves_no_room_behind() {
    let mut pair = Pair::quiet().await;
    let shared = Arc::clone(&pair.shared);
    let exchange = shared.send("PING\r\n").unwrap();
    let long = "x".repeat(20 * AT_ONCE);
    let push = format!(">1\r\n${}\r\n{long}\r\n", long.len());
    pair.server_writes(&push).await;
    pair.task_reads(&push).await;
    pair.server_writes("+OK\r\n").await;
    assert_eq!(pair.answer(exchange).await.unwrap(), Value::Okay);
    let state = shared.state.lock();
    let kept = state.buffer.capacity() + state.for_task.capacity();
    assert!(kept <= 2 * AT_ONCE, "{kept}");
}

/// A length is only a promise.
#[tokio::test]
async fn a_length_takes_no_room() {
    let mut pair = Pair::quiet().await;
    for begin in ["$9999999999\r\nx", "*99999999999999999999\r\n", "|9999999999\r\n+"] {
        let shared = Arc::clone(&pair.shared);
        let mut exchange = shared.send("PING\r\n").unwrap();
        pair.server_writes(begin).await;
        let early = timeout(Duration::from_millis(20), &mut exchange).await;
        assert!(early.is_err(), "an answer without its end");
        assert_eq!(shared.state.lock().filled, begin.len());
        assert_eq!(shared.state.lock().buffer.capacity(), ROOM);
        drop(exchange);
        pair = Pair::quiet().await;
    }
}
