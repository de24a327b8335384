//! A server that answers as a test says, for what no real server does when a test needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A command on a connection.
#[derive(Debug, Clone)]
pub struct Command {
    /// The number of the connection, counted from one in the order in which they were accepted.
    pub connection: usize,
    /// The words of the command; the first one in capitals.
    pub words: Vec<String>,
}

/// The answer to one command.
#[derive(Debug, Clone)]
pub enum Scripted {
    /// As a server that knows just enough for a client to connect and to subscribe.
    Usual,
    /// These bytes.
    Bytes(String),
    /// The same, where they are no text.
    Raw(Vec<u8>),
    /// This error.
    Error(String),
    /// A script's answer: its text behind the number of the call.
    Script(String),
    /// None: the server closes the connection.
    Close,
}

type Answer = dyn Fn(Command) -> BoxFuture<'static, Scripted> + Send + Sync;

/// A server on a port of its own. It accepts connections until the test's runtime ends.
#[derive(Debug)]
pub struct ScriptedServer {
    port: u16,
    accepted: Arc<AtomicUsize>,
}

impl ScriptedServer {
    /// Starts a server that answers each command by `answer`, one after the other on each connection.
    pub async fn start(
        answer: impl Fn(Command) -> BoxFuture<'static, Scripted> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the system gives a port");
        let port = listener.local_addr().expect("it has an address").port();
        let (accepted, answer): (_, Arc<Answer>) =
            (Arc::<AtomicUsize>::default(), Arc::new(answer));
        let count = Arc::clone(&accepted);
        crate::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = count.fetch_add(1, Ordering::SeqCst) + 1;
                crate::spawn(serve(stream, connection, Arc::clone(&answer)));
            }
        });
        Self { port, accepted }
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections it has accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn serve(stream: TcpStream, connection: usize, answer: Arc<Answer>) {
    let mut stream = BufReader::new(stream);
    while let Some(words) = read_command(&mut stream).await {
        let mut words: Vec<_> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        words[0].make_ascii_uppercase();
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let bytes = match answer(Command { connection, words: words.clone() }).await {
            Scripted::Usual => match &*words[0] {
                "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
                "PING" => "+PONG\r\n".to_owned(),
                "SUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "SUNSUBSCRIBE" => {
                    let kind = words[0].to_ascii_lowercase();
                    format!(">3\r\n{}{}:1\r\n", bulk(&kind), bulk(&words[1]))
                }
                _ => "+OK\r\n".to_owned(),
            }
            .into_bytes(),
            Scripted::Raw(bytes) => bytes,
            Scripted::Bytes(bytes) => bytes.into_bytes(),
            Scripted::Error(error) => format!("-{error}\r\n").into_bytes(),
            Scripted::Script(text) => {
                let number = words.last().map_or("", String::as_str);
                bulk(&format!("{number} {text}")).into_bytes()
            }
            Scripted::Close => return,
        };
        if stream.get_mut().write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Reads the words of one command; `None` at the end of the stream.
pub async fn read_command(from: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for _ in 0..read_number(from).await? {
        let mut word = vec![0; read_number(from).await? + 2];
        from.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Some(words)
}

/// The number in a line such as `*3` or `$12`.
pub async fn read_number(from: &mut (impl AsyncBufRead + Unpin)) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim_end().parse().ok()
}
