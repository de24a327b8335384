//! The harness itself: a tool that does not do what it says proves nothing.

mod cluster;
mod proxy;
mod server;
mod witness;

use std::process::{Command, Stdio};

use lock_tests::eventually::eventually_blocking;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::prelude::*;

/// More than anything here takes on a busy machine.
const BOUND: Duration = secs(20);

/// How long to look on that something does not happen.
const QUIET: Duration = ms(150);

/// A connection for inline commands: one line there, one line back.
struct Wire(BufReader<TcpStream>);

impl Wire {
    async fn open(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap()))
    }

    async fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    }

    /// The next line; empty at the end of the stream.
    async fn reply(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        timeout(BOUND, self.0.read_line(&mut line)).await.expect("a reply or an end")?;
        Ok(line.trim_end().to_owned())
    }

    async fn ask(&mut self, line: &str) -> String {
        self.send(line).await;
        self.reply().await.unwrap()
    }

    /// Whether nothing comes, not even the end.
    async fn is_silent(&mut self) -> bool {
        timeout(QUIET, self.0.read_u8()).await.is_err()
    }
}
