//! Redis's protocol by hand: bytes that no client library would send.

use lock_tests::RedisServer;
use lock_tests::scripted_server::read_number;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A command as bytes.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// A connection that publishes.
pub(crate) struct Publisher(BufReader<TcpStream>);

impl Publisher {
    pub(crate) async fn of(server: &RedisServer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        Self(BufReader::new(stream))
    }

    /// Publishes a message so often, in one write, and returns how many subscribers received it, all in all.
    pub(crate) async fn publish(&mut self, channel: &str, message: &[u8], times: usize) -> u64 {
        let command = command(&[b"PUBLISH", channel.as_bytes(), message]);
        self.0.get_mut().write_all(&command.repeat(times)).await.unwrap();
        let mut received = 0;
        for _ in 0..times {
            received += read_number(&mut self.0).await.expect("an integer") as u64;
        }
        received
    }
}
