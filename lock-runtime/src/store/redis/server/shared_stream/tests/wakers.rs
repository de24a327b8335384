//! Wakers that use the stream, and runtimes that end.

use std::sync::atomic::AtomicBool;
use std::thread;

use tokio::runtime::{Builder, Runtime};

use super::*;

/// A waker that sees whether the stream is locked when it wakes or is dropped, as one that polls at once would.
struct Curious {
    shared: Arc<SharedStream>,
    saw_lock: Arc<AtomicBool>,
    woken: Arc<AtomicUsize>,
}

impl Curious {
    fn look(&self) {
        self.saw_lock.fetch_or(self.shared.state.try_lock().is_none(), Ordering::SeqCst);
    }
}

impl Wake for Curious {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.look();
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.look();
    }
}

#[tokio::test]
async fn no_waker_meets_the_lock() {
    let mut pair = Pair::quiet().await;
    let (saw_lock, woken) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let shared = Arc::clone(&pair.shared);
    let poll = |exchange: &mut Exchange<'_>| {
        let (shared, saw_lock, woken) =
            (Arc::clone(&shared), Arc::clone(&saw_lock), Arc::clone(&woken));
        let waker = Waker::from(Arc::new(Curious { shared, saw_lock, woken }));
        Pin::new(exchange).poll(&mut Context::from_waker(&waker)).is_ready()
    };
    let woken_times = async |times| {
        let wait = async {
            while woken.load(Ordering::SeqCst) < times {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, wait).await.expect("a caller is woken");
    };
    let mut answered = shared.send("PING\r\n").unwrap();
    // The second poll drops the waker of the first.
    assert!(!poll(&mut answered) && !poll(&mut answered));
    pair.server_writes("+OK\r\n").await;
    woken_times(1).await;
    assert!(poll(&mut answered));
    let mut dropped = shared.send("PING\r\n").unwrap();
    assert!(!poll(&mut dropped));
    drop(dropped);
    pair.server_writes("+OK\r\n>1\r\n+a\r\n").await;
    pair.task_reads(">1\r\n+a\r\n").await;
    let mut read_by_task = shared.send("PING\r\n").unwrap();
    assert!(!poll(&mut read_by_task));
    pair.to_task.send(b"ECHO\r\n".to_vec()).unwrap();
    pair.server_writes("+OK\r\n+1\r\n").await;
    pair.task_reads("+1\r\n").await;
    woken_times(2).await;
    assert!(poll(&mut read_by_task));
    let mut retired = shared.send("PING\r\n").unwrap();
    assert!(!poll(&mut retired));
    shared.fail("retired");
    woken_times(3).await;
    assert!(poll(&mut retired) && !saw_lock.load(Ordering::SeqCst));
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The runtime of the task ends while a caller elsewhere waits.
#[test]
fn the_end_of_the_runtime_fails_the_exchange() {
    let (of_task, of_caller) = (runtime(), runtime());
    let pair = of_task.block_on(Pair::quiet());
    let exchange = pair.exchange("PING\r\n").unwrap();
    let answer = of_caller.block_on(async {
        let mut exchange = exchange;
        let early = timeout(Duration::from_millis(5), &mut exchange).await;
        assert!(early.is_err(), "an answer from nowhere");
        let end = thread::spawn(move || drop(of_task));
        let answer = timeout(LIMIT, exchange).await.expect("it waits");
        end.join().unwrap();
        answer
    });
    assert!(answer.unwrap_err().is_io_error());
    assert!(pair.exchange("PING\r\n").is_none());
}

/// The answer is read when its runtime is driven again, though its caller is elsewhere.
#[test]
fn a_caller_may_be_in_another_runtime() {
    let (of_task, of_caller) = (runtime(), runtime());
    let mut pair = of_task.block_on(Pair::quiet());
    let shared = Arc::clone(&pair.shared);
    let mut exchange = shared.send("PING\r\n").unwrap();
    let early =
        of_caller.block_on(async { timeout(Duration::from_millis(5), &mut exchange).await });
    assert!(early.is_err(), "an answer from nowhere");
    let driven = thread::spawn(move || {
        of_task.block_on(async {
            pair.server_reads("PING\r\n").await;
            pair.server_writes("+OK\r\n>1\r\n+a\r\n").await;
            pair.task_reads(">1\r\n+a\r\n").await;
        });
        of_task
    });
    let answer = of_caller.block_on(async { timeout(LIMIT, exchange).await.expect("it waits") });
    assert_eq!(answer.unwrap(), Value::Okay);
    drop(driven.join().unwrap());
}
