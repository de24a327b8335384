//! Shadow mode (`enforce`) where many want one lock: each body runs at once, and each call is counted.

use std::cell::Cell;

use crate::observe::shadow::*;

/// A round trip, also of the one whose turn it is.
const ROUND_TRIP: Duration = ms(10);

#[derive(Clone, Copy)]
struct Crowd<'a> {
    client: &'a LockClient,
    start: Instant,
    /// After how long each body has started.
    started: &'a RefCell<Vec<Duration>>,
    takes: Duration,
}

impl Crowd<'_> {
    async fn body(self) {
        self.started.borrow_mut().push(self.start.elapsed());
        sleep(self.takes).await;
    }
}

macro_rules! bodies {
    ($($name:ident $key:literal $kind:expr;)*) => {$(
        #[distributed_lock(key = $key, policy = "trial", client = crowd.client, kind = $kind)]
        async fn $name(crowd: Crowd<'_>) -> Result<(), LockError> {
            crowd.body().await;
            Ok(())
        }
    )*};
}

bodies! {
    mutex "hot" mutex;
    fair "hot:fair" fair;
    permit "hot:permits" semaphore(1);
    write "hot:sides" write;
}

/// A hundred calls at once, many times over; nobody starts later than a look takes.
async fn crowd(client: &LockClient, call: impl AsyncFn(Crowd<'_>)) -> Vec<Duration> {
    let started = RefCell::new(Vec::new());
    let caller = async |number: u64| {
        for round in 0..5 {
            let takes = ms((number + round) % 30);
            call(Crowd { client, start: Instant::now(), started: &started, takes }).await;
        }
    };
    join_all((0..100).map(caller)).await;
    started.into_inner()
}

/// Keeps how late the latest timer was: the machine's part in a delay, next to none on a quiet one.
async fn watch_timers(lateness: &Cell<Duration>) {
    loop {
        let due = Instant::now() + ms(5);
        tokio::time::sleep_until(due).await;
        lateness.set(lateness.get().max(due.elapsed()));
    }
}

#[tokio::test]
async fn a_hot_key_delays_no_call() {
    let (seen, _here) = Kept::here();
    let (_server, proxy) = proxied().await;
    let client = connect(&proxy.url()).await;
    proxy.delay_replies(ROUND_TRIP);
    let lateness = Cell::new(Duration::ZERO);
    let crowds = async {
        let mut started = crowd(&client, async |crowd| mutex(crowd).await.unwrap()).await;
        started.extend(crowd(&client, async |crowd| fair(crowd).await.unwrap()).await);
        started.extend(crowd(&client, async |crowd| permit(crowd).await.unwrap()).await);
        started.extend(crowd(&client, async |crowd| write(crowd).await.unwrap()).await);
        started
    };
    let mut started = tokio::select! {
        started = crowds => started,
        () = watch_timers(&lateness) => unreachable!("it has no end"),
    };
    assert_eq!(started.len(), 4 * 500);
    started.sort_unstable();
    let (usual, latest) = (started[started.len() / 2], started[started.len() - 1]);
    assert!(usual < A_LOOK, "the usual body started after {usual:?}");
    // A body starts after a few turns of the runtime, each of which may be that late.
    let bound = A_LOOK * 4 + lateness.get() * 4;
    assert!(latest < bound, "a body started after {latest:?}, the bound is {bound:?}");
    let outcomes = ["acquired", "not_enforced", "unanswered"].map(|it| counted(&seen, it));
    assert_eq!(outcomes.iter().sum::<u32>(), 4 * 500, "{}", seen.text());
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
    assert!(seen.is("lock_acquire_total", &[], 4 * 500));
    seen.idle().await;
}

#[tokio::test]
async fn one_after_the_other_is_no_contention() {
    let (Scenario { seen, server: _server, client }, _here) = start().await;
    let (started, takes) = (RefCell::default(), Duration::ZERO);
    for _ in 0..50 {
        let start = Instant::now();
        mutex(Crowd { client: &client, start, started: &started, takes }).await.unwrap();
    }
    assert_eq!(counted(&seen, "acquired"), 50, "{}", seen.text());
}

/// Nobody lines up behind those who do wait, and a call that is given up is counted as that.
#[tokio::test]
async fn those_who_wait_are_not_waited_for() {
    let (seen, _here) = Kept::here();
    let (server, proxy) = proxied().await;
    let client = connect(&proxy.url()).await;
    let lock = client.mutex("hot").with(LockOptions::default());
    let held = lock.lock().await.unwrap();
    let waiters = [(); 10].map(|()| lock_tests::spawn(lock.lock().map(drop)));
    soon!("they wait", seen.is("lock_waiting", &[], 10));
    let (started, takes) = (RefCell::default(), Duration::ZERO);
    let crowd = || Crowd { client: &client, start: Instant::now(), started: &started, takes };
    proxy.stall();
    mutex(crowd()).await.unwrap();
    assert_eq!(counted(&seen, "not_enforced"), 1, "{}", seen.text());
    proxy.pass();
    held.release().await.unwrap();
    joined(waiters).await;
    // A release under way is no reason to wait either.
    let held = lock.lock().await.unwrap();
    proxy.stall();
    let release = lock_tests::spawn(held.release());
    tokio::task::yield_now().await;
    mutex(crowd()).await.unwrap();
    assert_eq!(counted(&seen, "not_enforced"), 2, "{}", seen.text());
    proxy.pass();
    release.await.unwrap().unwrap();
    proxy.stall();
    assert!(timeout(A_LOOK / 5, mutex(crowd())).await.is_err());
    assert_eq!(counted(&seen, "cancelled"), 1, "{}", seen.text());
    proxy.pass();
    soon!("nothing is left", seen.is_idle() && !server.client().exists("hot").await);
}
