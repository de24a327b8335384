//! A relay that lets a client and its server run in turns.
//!
//! How many requests share a script, a write or a read depends on which of the two the machine lets run first. By turns,
//! it does not: what one of them has written is passed on once that process sleeps.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::Result;

/// How often the relay looks at both processes: the system reports no event when a process falls asleep. A turn takes longer.
const PERIOD: Duration = Duration::from_micros(200);

/// How long a server may take to name its process.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two ends of a connection, and what is yet to be passed on.
struct Connection {
    client: End,
    server: End,
}

struct End {
    stream: TcpStream,
    /// What came from here.
    read: Vec<u8>,
    has_ended: bool,
}

/// Listens on a port of its own.
pub(super) struct Relay {
    listener: TcpListener,
    server: SocketAddr,
}

impl Relay {
    /// A relay for the server at an address such as `redis://127.0.0.1:6379`.
    ///
    /// # Errors
    ///
    /// When the address cannot be read, or there is no port.
    pub(super) fn for_server(url: &str) -> Result<Self> {
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        let server =
            address.parse().map_err(|error| format!("the relay cannot read {url}: {error}"))?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, server })
    }

    /// The address for the client.
    pub(super) fn url(&self) -> Result<String> {
        Ok(format!("redis://{}", self.listener.local_addr()?))
    }

    /// Passes bytes on between the client, of which the main thread counts, and the server, until `is_over`.
    ///
    /// # Errors
    ///
    /// When a connection or a process cannot be watched.
    pub(super) fn run(
        &self,
        client: u32,
        mut is_over: impl FnMut() -> io::Result<bool>,
    ) -> Result<()> {
        let server = process_id(self.server)?;
        let mut connections: Vec<Connection> = Vec::new();
        while !is_over()? {
            self.accept(&mut connections)?;
            // Asleep first: what is read then is all that the process wrote in its turn.
            let (client_sleeps, server_sleeps) = (is_asleep(client), is_asleep(server));
            for Connection { client, server } in &mut connections {
                client.read()?;
                server.read()?;
            }
            for Connection { client, server } in &mut connections {
                if client_sleeps {
                    client.pass_to(server)?;
                }
                if server_sleeps {
                    server.pass_to(client)?;
                }
            }
            connections.retain(|it| !it.client.is_done() && !it.server.is_done());
            thread::sleep(PERIOD);
        }
        Ok(())
    }

    fn accept(&self, connections: &mut Vec<Connection>) -> Result<()> {
        match self.listener.accept() {
            Ok((client, _)) => {
                let server = End::new(TcpStream::connect(self.server)?)?;
                connections.push(Connection { client: End::new(client)?, server });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl End {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new(), has_ended: false })
    }

    /// Takes what has come.
    fn read(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let read = self.stream.read_to_end(&mut self.read);
        self.stream.set_nonblocking(false)?;
        match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Closed, or reset by a process that has ended.
            _ => self.has_ended = true,
        }
        Ok(())
    }

    fn pass_to(&mut self, other: &mut Self) -> io::Result<()> {
        if self.read.is_empty() {
            return Ok(());
        }
        // An end that is closed takes no more.
        other.has_ended |= other.stream.write_all(&self.read).is_err();
        self.read.clear();
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.has_ended && self.read.is_empty()
    }
}

/// The process of a server.
fn process_id(server: SocketAddr) -> Result<u32> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"INFO server\r\nQUIT\r\n")?;
    let mut info = String::new();
    stream.read_to_string(&mut info)?;
    let id = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    Ok(id.ok_or("the server does not name its process")?.trim().parse()?)
}

/// True if the main thread of a process waits for something, or the process has ended.
fn is_asleep(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return true };
    // The name of the program, in brackets, may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['S', 'Z', 'X']))
}
