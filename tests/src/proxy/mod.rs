//! A TCP proxy in front of a server, which does to the bytes what networks do.
//!
//! It runs on a thread of its own with real time, so that neither a paused clock nor a test that
//! blocks its runtime changes what it does. A switch of its mode holds for what is read from then
//! on, on all connections.

mod link;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::{oneshot, watch};

use link::Link;

/// A proxy that listens on a port of its own. All connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    /// Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What happens to bytes and to new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass {
        to_server: Duration,
        to_client: Duration,
    },
    /// Requests take a random time up to this.
    Mix(Duration),
    /// Some chunks are lost once, and sent again.
    Lossy,
    Stall,
    BlackHole,
    Refuse,
}

/// Something that happens once, to the next request that contains `text`.
#[derive(Debug)]
struct Mishap {
    text: String,
    kind: MishapKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MishapKind {
    DropReply,
    SwallowReply,
    Duplicate,
    /// A second delivery is kept for later.
    Keep,
}

/// What the handle switches and the connections obey.
#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    mode: watch::Sender<Mode>,
    /// Counts the calls of [`Proxy::reset_all`].
    resets: watch::Sender<usize>,
    /// Counts the calls of [`Proxy::sever_all`].
    severances: AtomicUsize,
    mishaps: Mutex<Vec<Mishap>>,
    /// Requests that are to be delivered again.
    kept: Mutex<Vec<Vec<u8>>>,
    accepted: AtomicUsize,
    replies_dropped: AtomicUsize,
    replies_swallowed: AtomicUsize,
    requests_duplicated: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy for `target_port` of 127.0.0.1 that passes everything on.
    ///
    /// Panics when the system gives it no port or no thread.
    pub async fn start(target_port: u16) -> Self {
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target_port),
            mode: watch::Sender::new(Mode::PASS),
            resets: watch::Sender::new(0),
            severances: AtomicUsize::new(0),
            mishaps: Mutex::default(),
            kept: Mutex::default(),
            accepted: AtomicUsize::new(0),
            replies_dropped: AtomicUsize::new(0),
            replies_swallowed: AtomicUsize::new(0),
            requests_duplicated: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell_port, port) = oneshot::channel();
        let for_thread = shared.clone();
        let thread = thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("the system gives a runtime its poller");
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(for_thread, tell_port) => {}
                        _ = stopped => {}
                    }
                });
            })
            .expect("the system gives a thread");
        let port = port.await.expect("the proxy gets a port of 127.0.0.1");
        Self { port, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// The address of the proxy, as of a server without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port that the proxy listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Passes everything on at once: the mode in which a proxy starts.
    ///
    /// A connection that has lost bytes in a black hole stays dead: no network delivers a later
    /// byte without the earlier ones.
    pub fn pass(&self) {
        self.set(Mode::PASS);
    }

    /// Passes requests and replies on after `delay` each, in their order.
    pub fn delay(&self, delay: Duration) {
        self.set(Mode::Pass { to_server: delay, to_client: delay });
    }

    /// Passes requests on after `delay`, and replies at once.
    pub fn delay_requests(&self, delay: Duration) {
        self.set(Mode::Pass { to_server: delay, to_client: Duration::ZERO });
    }

    /// Passes requests on after a random time up to `most` each, those of one connection in their order, and replies at once.
    pub fn mix_requests(&self, most: Duration) {
        self.set(Mode::Mix(most));
    }

    /// Passes replies on after `delay`, and requests at once.
    pub fn delay_replies(&self, delay: Duration) {
        self.set(Mode::Pass { to_server: Duration::ZERO, to_client: delay });
    }

    /// Keeps all bytes, and delivers them when another mode is set: an outage that TCP rides out.
    pub fn stall(&self) {
        self.set(Mode::Stall);
    }

    /// Swallows all bytes of both sides; connections stay open, and even their ends are not passed
    /// on. New connections are accepted and swallowed for good.
    pub fn black_hole(&self) {
        self.set(Mode::BlackHole);
    }

    /// Loses a fifth of all chunks of bytes, as a bad network does packets: TCP sends them again, so they, and what comes
    /// behind them, are 200 ms late.
    pub fn lose_some(&self) {
        self.set(Mode::Lossy);
    }

    /// Resets new connections at once; those that exist go on.
    pub fn refuse(&self) {
        self.set(Mode::Refuse);
    }

    /// Passes the next request on, and closes its connection when the reply comes, in place of
    /// passing that: the server has executed what the client will never know of.
    pub fn drop_next_reply(&self) {
        self.drop_next_reply_to("");
    }

    /// As [`drop_next_reply`](Self::drop_next_reply), for the next request that contains `text`, as
    /// a key or a command's name.
    pub fn drop_next_reply_to(&self, text: &str) {
        self.plan(text, MishapKind::DropReply);
    }

    /// Swallows the reply to the next request that contains `text`, and lets the connection go on: from
    /// then on the client takes each reply for the answer to the request before.
    pub fn swallow_next_reply_to(&self, text: &str) {
        self.plan(text, MishapKind::SwallowReply);
    }

    /// Delivers the next request twice: as it is, and by a connection of its own whose replies
    /// no client reads, as by a client library that sends again after a reset.
    ///
    /// The server must not ask for a password.
    pub fn duplicate_next_request(&self) {
        self.duplicate_next_request_with("");
    }

    /// As [`duplicate_next_request`](Self::duplicate_next_request), for the next request that
    /// contains `text`.
    pub fn duplicate_next_request_with(&self, text: &str) {
        self.plan(text, MishapKind::Duplicate);
    }

    /// Delivers the next request that contains `text`, and keeps a copy of it for [`deliver_kept`](Self::deliver_kept).
    pub fn keep_next_request_with(&self, text: &str) {
        self.plan(text, MishapKind::Keep);
    }

    /// Delivers what was kept once more, by connections of its own: requests that were on their way while the client has gone
    /// on. Returns how many of them the server has answered.
    pub async fn deliver_kept(&self) -> usize {
        let kept = std::mem::take(&mut *self.shared.kept());
        let before = self.requests_duplicated();
        for request in kept {
            // One that is not answered is not counted.
            let _ = link::send_aside(Arc::clone(&self.shared), request).await;
        }
        self.requests_duplicated() - before
    }

    /// How many requests have not come yet that something is planned for.
    pub fn planned(&self) -> usize {
        self.shared.mishaps.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Forgets what is planned for requests that have not come yet.
    pub fn plan_nothing(&self) {
        self.shared.mishaps.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Swallows all bytes of the connections that exist, for good and without a word, as a router does that has forgotten
    /// them. New connections are not affected.
    pub fn sever_all(&self) {
        self.shared.severances.fetch_add(1, Ordering::SeqCst);
    }

    /// Resets (RST) all connections that have been accepted, on both sides. New ones are not
    /// affected.
    pub fn reset_all(&self) {
        self.shared.resets.send_modify(|count| *count += 1);
    }

    /// Leads new connections to another port of 127.0.0.1: the address stays and the server behind it
    /// changes. Those that exist go on.
    pub fn retarget(&self, port: u16) {
        self.shared.target.store(port, Ordering::SeqCst);
    }

    /// How many connections have been accepted so far, whatever became of them.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many replies have been dropped by [`drop_next_reply`](Self::drop_next_reply).
    pub fn replies_dropped(&self) -> usize {
        self.shared.replies_dropped.load(Ordering::SeqCst)
    }

    /// How many replies [`swallow_next_reply_to`](Self::swallow_next_reply_to) has swallowed.
    pub fn replies_swallowed(&self) -> usize {
        self.shared.replies_swallowed.load(Ordering::SeqCst)
    }

    /// How many requests the server has answered a second time, due to
    /// [`duplicate_next_request`](Self::duplicate_next_request).
    pub fn requests_duplicated(&self) -> usize {
        self.shared.requests_duplicated.load(Ordering::SeqCst)
    }

    fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    fn plan(&self, text: &str, kind: MishapKind) {
        let mishap = Mishap { text: text.to_owned(), kind };
        self.shared.mishaps.lock().unwrap_or_else(PoisonError::into_inner).push(mishap);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Mode {
    const PASS: Self = Self::Pass { to_server: Duration::ZERO, to_client: Duration::ZERO };
}

impl Shared {
    fn mode(&self) -> Mode {
        *self.mode.borrow()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mishap that was planned for this request, which is then no longer planned.
    fn mishap_for(&self, request: &[u8]) -> Option<MishapKind> {
        let mut mishaps = self.mishaps.lock().unwrap_or_else(PoisonError::into_inner);
        let due = mishaps.iter().position(|mishap| contains(request, mishap.text.as_bytes()))?;
        Some(mishaps.remove(due).kind)
    }
}

async fn accept(shared: Arc<Shared>, tell_port: oneshot::Sender<u16>) {
    let bound = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        std::io::Result::Ok((listener, port))
    };
    let Ok((listener, port)) = bound.await else {
        return; // The dropped sender tells.
    };
    if tell_port.send(port).is_err() {
        return;
    }
    loop {
        // An error is that of one connection, which was gone before it was accepted.
        let Ok((client, _)) = listener.accept().await else { continue };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        // The link listens for resets from here on, not from when its task first runs.
        let link = Link::new(shared.clone());
        tokio::spawn(link.serve(client));
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}
