//! Each option of the attribute, as a word, a literal and an expression.

use std::cell::Cell;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::admin::HoldKind;
use lock_runtime::{LockClient, LockError, LockGuard, Wait, distributed_lock};

const MS: Duration = Duration::from_millis(1);

/// `wait`, `when` and `on_busy = skip`.
#[tokio::test]
async fn calls_wait_skip_or_go_without() {
    let client = LockClient::in_memory();
    outcomes! { client, "a";
        [key = "a", wait = none] () -> Result<(), LockError> { Ok(()) } ()
            => Ok(()), Err(LockError::Busy { .. }),
        [key = "a", wait = none, on_busy = error] () -> Result<(), LockError> { Ok(()) } ()
            => Ok(()), Err(LockError::Busy { .. }),
        [key = "a", wait = "20ms"] () -> Result<(), LockError> { Ok(()) } ()
            => Ok(()), Err(LockError::Timeout { .. }),
        [key = "a", wait = 20 * time] (time: Duration) -> Result<(), LockError> { Ok(()) } (MS)
            => Ok(()), Err(LockError::Timeout { .. }),
        [key = "a", wait = wait] (wait: Wait) -> Result<(), LockError> { Ok(()) } (Wait::None)
            => Ok(()), Err(LockError::Busy { .. }),
        [key = "a", when = locked, wait = none] (locked: bool) -> Result<(), LockError> { Ok(()) } (true)
            => Ok(()), Err(LockError::Busy { .. }),
        [key = "a", when = locked, wait = none] (locked: bool) -> Result<(), LockError> { Ok(()) } (false)
            => Ok(()), Ok(()),
        [key = "a", when = !name.is_empty(), on_busy = skip] (name: String) -> Option<String> { Some(name) }
            ("x".into()) => Some(_), None,
        [key = "a", when = !name.is_empty(), on_busy = skip] (name: String) -> Option<String> { Some(name) }
            (String::new()) => Some(_), Some(_),
        [key = "a", on_busy = skip] () -> Report { Some("ran") } () => Some("ran"), None,
        [key = "a", on_busy = skip] () -> Result<Report, LockError> { Ok(Some("ran")) } ()
            => Ok(Some("ran")), Ok(None),
        [key = "a", on_busy = skip, wait = "20ms"] () -> Report { Some("ran") } () => Some("ran"), None,
        [key = "a", on_busy = skip] () -> Result<(), LockError> { Err(LockError::Closed) } ()
            => Err(LockError::Closed), Ok(()),
    }
    let runs = Cell::new(0);
    client.scope(counts(&runs)).await;
    let held = client.mutex("a").lock().await.expect("is free");
    let waiting = tokio::spawn(client.scope(patiently()));
    // Without a word about waiting a call that skips does not wait.
    tokio::time::timeout(5_000 * MS, client.scope(counts(&runs))).await.expect("skips at once");
    tokio::time::sleep(30 * MS).await;
    assert!(runs.get() == 1 && !waiting.is_finished());
    held.release().await.expect("is held");
    waiting.await.expect("does not panic").expect("is free");
}

type Report = Option<&'static str>;

#[distributed_lock(key = "a", wait = forever)]
async fn patiently() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", on_busy = skip)]
async fn counts(runs: &Cell<u32>) {
    runs.set(runs.get() + 1);
}

#[distributed_lock(key = "{name}", when = !name.is_empty(), wait = none)]
async fn unnamed(name: &str) -> Result<usize, LockError> {
    Ok(name.len())
}

/// Not even a client is needed then, and nothing is wrong with a key that is not used.
#[tokio::test]
async fn a_call_without_its_lock_needs_no_client() -> Result<(), LockError> {
    assert_eq!(unnamed("").await?, 0);
    let LockError::NoClient { site, .. } = unnamed("x").await.unwrap_err() else { panic!() };
    assert!(site.ends_with("::options::unnamed"), "{site}");
    Ok(())
}

/// Rows of `[arguments] (parameters) (values) => range`: for how many seconds the hold is good.
macro_rules! leases {
    ($([$($attribute:tt)*] ($($parameters:tt)*) ($($values:expr),*) => $seconds:expr;)*) => {$({
        #[distributed_lock(key = "job", guard = hold, $($attribute)*)]
        async fn row($($parameters)*) -> Result<u64, LockError> {
            Ok(hold.remaining().as_secs())
        }
        let found = row($($values),*).await?;
        assert!($seconds.contains(&found), "{}: {found}", stringify!($($attribute)*));
    })*};
}

/// Outlives its first lease several times.
#[distributed_lock(key = "job", lease = watchdog("150ms"), guard = hold)]
async fn renewed() -> Result<bool, LockError> {
    tokio::time::sleep(500 * MS).await;
    Ok(hold.is_lost())
}

#[distributed_lock(key = "long", lease = watchdog("100ms"), max_hold = 3 * limit)]
async fn bounded(limit: Duration) -> Result<(), LockError> {
    pending().await
}

#[distributed_lock(key = "account:{id}", guard = hold, lease = "200ms")]
async fn extended(id: u64, log: &mut Vec<u64>) -> Result<u64, LockError> {
    let same: &LockGuard = hold;
    log.push(id);
    same.extend(Duration::from_secs(60)).await?;
    assert!(hold.remaining() > Duration::from_secs(50));
    Ok(hold.token().get())
}

#[tokio::test]
async fn times_are_those_of_the_attribute() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    let timed = async {
        // A lease counts from before the request and ends 1 % early.
        leases! {
            [lease = "1m 40s"] () () => (95..100);
            [lease = lease] (lease: Duration) (Duration::from_secs(60)) => (55..60);
            [lease = watchdog("200s")] () () => (195..200);
            [lease = watchdog] () () => (25..30);
            [at_least = "1ms"] () () => (25..30);
            [at_least = least] (least: Duration) (MS) => (25..30);
            [release_timeout = "0s"] () () => (25..30);
            [release_timeout = limit, kind = fair] (limit: Duration) (MS) => (25..30);
        }
        assert!(!renewed().await?);
        assert!(bounded(100 * MS).await.unwrap_err().is_lost());
        let mut log = Vec::new();
        let (first, second) = (extended(1, &mut log).await?, extended(1, &mut log).await?);
        assert!(second > first && log == [1, 1]);
        // It was given back although the body had it.
        assert!(client.mutex("account:1").try_lock().await?.is_some());
        Ok::<_, LockError>(())
    };
    client.scope(timed).await?;
    outcomes! { client, "b";
        [key = "b", wait = none, lease = time] (time: Duration) -> Result<(), LockError> { Ok(()) } (MS)
            => Err(LockError::InvalidOptions(_)), Err(LockError::InvalidOptions(_)),
        [key = "b", wait = none, at_least = time] (time: Duration) -> Result<(), LockError> { Ok(()) }
            (Duration::ZERO) => Err(LockError::InvalidOptions(_)), Err(LockError::InvalidOptions(_)),
        [key = "b", wait = none, at_least = time * 2, lease = time] (time: Duration)
            -> Result<(), LockError> { Ok(()) } (1_000 * MS)
            => Err(LockError::InvalidOptions(_)), Err(LockError::InvalidOptions(_)),
    }
    Ok(())
}

/// Rows of `[arguments] => result`: what a call returns whose lock is freed by force while its body runs.
#[tokio::test]
async fn a_loss_that_the_release_finds_is_logged_or_returned() {
    macro_rules! freed {
        ($([$($attribute:tt)*] => $expected:pat,)*) => {$({
            #[distributed_lock(key = "taken", client = client, $($attribute)*)]
            async fn row(client: &LockClient, is_freed: bool) -> Result<u8, LockError> {
                assert_eq!(is_freed && client.admin().force_release("taken").await?, is_freed);
                Ok(1)
            }
            let client = LockClient::in_memory();
            assert!(matches!(row(&client, true).await, $expected), stringify!($($attribute)*));
            assert!(matches!(row(&client, false).await, Ok(1)), stringify!($($attribute)*));
        })*};
    }
    freed! {
        [wait = none] => Ok(1),
        [on_release_lost = log] => Ok(1),
        [on_release_lost = error] => Err(LockError::Lost { .. }),
    }
}

struct Shop {
    client: LockClient,
    shared: Arc<LockClient>,
}

impl Shop {
    fn client(&self) -> &LockClient {
        &self.client
    }

    #[distributed_lock(key = "x", wait = none, client = self.client)]
    async fn field(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "x", wait = none, client = self.shared)]
    async fn shared(&mut self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "x", wait = none, client = self.client())]
    async fn method(self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "x", wait = none, client = client)]
async fn moved(client: LockClient) -> Result<LockClient, LockError> {
    Ok(client)
}

/// `client` sees `self` and the arguments. Busy is the proof that this very client was asked.
#[tokio::test]
async fn the_client_is_found_where_the_attribute_says() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    let held = client.mutex("x").lock().await?;
    let mut shop = Shop { client: client.clone(), shared: Arc::new(client.clone()) };
    assert!(shop.field().await.unwrap_err().is_busy());
    assert!(shop.shared().await.unwrap_err().is_busy());
    assert!(shop.method().await.unwrap_err().is_busy());
    assert!(moved(client.clone()).await.unwrap_err().is_busy());
    held.release().await
}

/// In a task that knows nothing of the holds here: inside of them, an acquire would be a re-entry.
async fn outside<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(future).await.expect("does not panic")
}

/// Rows of `[arguments] (parameters) (values) name => kind`: what kind of hold is at the name while the body runs.
macro_rules! kinds {
    ($client:ident; $(
        [$($attribute:tt)*] ($($parameters:tt)*) ($($values:expr),*) $name:literal => $kind:ident;
    )*) => {$({
        #[distributed_lock(key = $name, client = client, $($attribute)*)]
        async fn row(client: &LockClient, $($parameters)*) -> Result<Option<HoldKind>, LockError> {
            Ok(client.admin().inspect($name).await?.kind)
        }
        let kind = row(&$client, $($values),*).await?;
        assert_eq!(kind, Some(HoldKind::$kind), "{}", stringify!($($attribute)*));
    })*};
}

#[distributed_lock(key = "rw", kind = read, client = client)]
async fn read(client: &LockClient) -> Result<(), LockError> {
    let lock = client.rw_lock("rw");
    // Another reader is let in, a writer is not.
    let (reader, writer) =
        outside(async move { (lock.try_read().await, lock.try_write().await) }).await;
    assert!(reader?.is_some() && writer?.is_none());
    Ok(())
}

#[distributed_lock(key = "permits", kind = semaphore(limit), wait = none)]
async fn permit(limit: u32) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn the_kind_is_that_of_the_attribute() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    kinds! { client;
        [wait = none] () () "usual" => Mutex;
        [kind = mutex] () () "mutex" => Mutex;
        [kind = fair] () () "fair" => Fair;
        [kind = read] () () "sides" => Read;
        [kind = write] () () "sides" => Write;
        [kind = semaphore(2)] () () "two" => Semaphore;
        [kind = semaphore(limit)] (limit: u32) (2) "two" => Semaphore;
    }
    read(&client).await?;
    let permits = client.semaphore("permits", 2).acquire().await?;
    client
        .scope(async {
            permit(2).await?;
            assert!(permit(1).await.unwrap_err().is_busy());
            assert!(matches!(permit(0).await, Err(LockError::InvalidOptions(_))));
            Ok::<_, LockError>(())
        })
        .await?;
    permits.release().await
}
