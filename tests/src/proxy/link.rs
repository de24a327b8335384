//! One connection through the proxy: a client's socket, a server's socket, and a pump each way.

use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{MishapKind, Mode, Shared};

/// The most that one read takes: more than any request of a test, so that a read holds it whole.
const CHUNK: usize = 64 * 1024;

/// When TCP sends again what was not acknowledged, at the earliest.
const RETRANSMISSION: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    resets: watch::Receiver<usize>,
    /// How often connections had been severed when this one came.
    severances: usize,
    /// Bytes have been swallowed, so none may follow.
    severed: AtomicBool,
    /// The client is to be cut off when the next reply comes.
    drop_reply: AtomicBool,
    /// The next reply is to be swallowed, and the connection goes on.
    swallow_reply: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// What a reader hands to its writer.
#[derive(Debug)]
struct Parcel {
    due: Instant,
    bytes: Vec<u8>,
}

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Both sides closed it, or one broke it.
    Closed,
    /// The reply came that must not reach the client.
    ReplyDropped,
}

impl Link {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let resets = shared.resets.subscribe();
        let severances = shared.severances.load(Ordering::SeqCst);
        let [severed, drop_reply, swallow_reply] = std::array::from_fn(|_| AtomicBool::new(false));
        Self { shared, resets, severances, severed, drop_reply, swallow_reply }
    }

    /// Serves one client until one side closes, the proxy resets it, or the proxy ends.
    pub(super) async fn serve(self, client: TcpStream) {
        match self.shared.mode() {
            Mode::Refuse => reset(&client),
            Mode::BlackHole => self.swallow(client).await,
            Mode::Pass { .. } | Mode::Mix(_) | Mode::Lossy | Mode::Stall => {
                let target = self.shared.target.load(Ordering::SeqCst);
                match TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await {
                    Ok(server) => self.join(client, server).await,
                    Err(_) => reset(&client),
                }
            }
        }
    }

    /// Holds a client that no server will ever hear of.
    async fn swallow(&self, mut client: TcpStream) {
        let was_reset = tokio::select! {
            () = read_to_end(&mut client) => false,
            () = self.reset_requested() => true,
        };
        if was_reset {
            reset(&client);
        }
    }

    async fn join(&self, mut client: TcpStream, mut server: TcpStream) {
        // Held-back bytes are the proxy's doing only.
        let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        let end = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            tokio::select! {
                end = async {
                    let requests = self.pump(Direction::ToServer, from_client, to_server);
                    let replies = self.pump(Direction::ToClient, from_server, to_client);
                    tokio::try_join!(requests, replies).map_or_else(|end| end, |_| End::Closed)
                } => Some(end),
                () = self.reset_requested() => None,
            }
        };
        match end {
            Some(End::Closed) => {}
            Some(End::ReplyDropped) => {
                // Closing with replies unread would reset the connection, and a server may then
                // forget requests that it has received.
                let _ = server.shutdown().await;
                // The reply may have been one to an earlier request. So the client learns of it when the server has executed
                // all of them.
                tokio::select! {
                    () = read_to_end(&mut server) => {}
                    () = self.reset_requested() => reset(&client),
                }
                self.shared.replies_dropped.fetch_add(1, Ordering::SeqCst);
                drop(client);
            }
            None => {
                reset(&client);
                reset(&server);
            }
        }
    }

    async fn reset_requested(&self) {
        let mut resets = self.resets.clone();
        if resets.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    /// Moves bytes one way until the stream ends (`Ok`), or the whole connection has to (`Err`).
    async fn pump(
        &self,
        direction: Direction,
        source: impl AsyncRead + Unpin,
        sink: impl AsyncWrite + Unpin,
    ) -> Result<(), End> {
        let (sender, parcels) = mpsc::unbounded_channel();
        tokio::try_join!(self.collect(direction, source, sender), async {
            self.deliver(direction, sink, parcels).await.map_err(|_| End::Closed)
        },)?;
        Ok(())
    }

    async fn collect(
        &self,
        direction: Direction,
        mut source: impl AsyncRead + Unpin,
        parcels: UnboundedSender<Parcel>,
    ) -> Result<(), End> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = source.read(&mut buffer).await;
            let delay = match self.shared.mode() {
                Mode::Pass { to_server, .. } if direction == Direction::ToServer => to_server,
                Mode::Pass { to_client, .. } => to_client,
                Mode::Mix(most) if direction == Direction::ToServer => {
                    most.mul_f64(fastrand::f64())
                }
                Mode::Lossy if fastrand::u8(..5) == 0 => RETRANSMISSION,
                Mode::Mix(_) | Mode::Lossy | Mode::Stall | Mode::Refuse | Mode::BlackHole => {
                    Duration::ZERO
                }
            };
            if !self.passes() {
                match read {
                    Ok(1..) => continue,
                    // The end of a connection is lost like everything else: `deliver` keeps it.
                    Ok(0) | Err(_) => return Ok(()),
                }
            }
            let bytes = buffer[..read.map_err(|_| End::Closed)?].to_vec();
            match direction {
                Direction::ToClient if self.drop_reply.load(Ordering::SeqCst) => {
                    return Err(End::ReplyDropped);
                }
                Direction::ToClient if self.swallow_reply.swap(false, Ordering::SeqCst) => {
                    self.shared.replies_swallowed.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                Direction::ToServer | Direction::ToClient => {}
            }
            if bytes.is_empty()
                || parcels.send(Parcel { due: Instant::now() + delay, bytes }).is_err()
            {
                return Ok(());
            }
        }
    }

    async fn deliver(
        &self,
        direction: Direction,
        mut sink: impl AsyncWrite + Unpin,
        mut parcels: UnboundedReceiver<Parcel>,
    ) -> io::Result<()> {
        while let Some(Parcel { due, bytes }) = parcels.recv().await {
            sleep_until(due).await;
            if self.may_deliver().await {
                sink.write_all(&bytes).await?;
                // Only now: the end that a reply brings must not keep the request from the server.
                if direction == Direction::ToServer {
                    self.meet_mishap(&bytes);
                }
            }
        }
        if !self.may_deliver().await {
            pending::<()>().await;
        }
        sink.shutdown().await
    }

    /// Waits while the proxy stalls, then says whether bytes may pass.
    async fn may_deliver(&self) -> bool {
        // Fails only when the proxy is gone, and this with it.
        let _ = self.shared.mode.subscribe().wait_for(|mode| *mode != Mode::Stall).await;
        self.passes()
    }

    /// Whether bytes may pass: not in a black hole, and never again after it, nor once severed.
    fn passes(&self) -> bool {
        let was_severed = self.shared.severances.load(Ordering::SeqCst) > self.severances;
        if was_severed || self.shared.mode() == Mode::BlackHole {
            self.severed.store(true, Ordering::SeqCst);
        }
        !self.severed.load(Ordering::SeqCst)
    }

    fn meet_mishap(&self, request: &[u8]) {
        match self.shared.mishap_for(request) {
            None => {}
            Some(MishapKind::DropReply) => self.drop_reply.store(true, Ordering::SeqCst),
            Some(MishapKind::SwallowReply) => self.swallow_reply.store(true, Ordering::SeqCst),
            Some(MishapKind::Duplicate) => {
                tokio::spawn(send_aside(self.shared.clone(), request.to_vec()));
            }
            Some(MishapKind::Keep) => self.shared.kept().push(request.to_vec()),
        }
    }
}

/// Sends a request by a connection of its own, and counts it when the server has answered.
pub(super) async fn send_aside(shared: Arc<Shared>, request: Vec<u8>) -> io::Result<()> {
    let mut server =
        TcpStream::connect((Ipv4Addr::LOCALHOST, shared.target.load(Ordering::SeqCst))).await?;
    server.write_all(&request).await?;
    if server.read(&mut [0; 1]).await? > 0 {
        shared.requests_duplicated.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// Reads and discards until the other side closes or breaks the connection.
async fn read_to_end(stream: &mut TcpStream) {
    let mut buffer = vec![0; CHUNK];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// Makes the coming drop of `stream` a reset in place of an orderly close.
fn reset(stream: &TcpStream) {
    // Fails only on a socket that is already broken.
    let _ = stream.set_zero_linger();
}
