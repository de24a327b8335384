//! On async functions and those that return a future.

use std::fmt::Debug;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_runtime::{KeyPart, LockClient, LockError, Wait, distributed_lock};
use tokio::task::yield_now;

struct Order {
    id: u64,
    place: (u8, String),
}

impl Order {
    const fn number(&self) -> u64 {
        self.id
    }
}

struct Shop {
    client: LockClient,
    tenant: String,
    patience: Duration,
    sold: u64,
}

impl Shop {
    #[distributed_lock(key = "{self.tenant}:{order.id}:{order.place.1}:{order.number()}")]
    async fn template(&self, order: &Order) -> Result<u64, LockError> {
        Ok(self.sold + order.id)
    }

    #[distributed_lock(key("{}:{:raw}", self.tenant, order.id + 1), guard = hold)]
    async fn values(&self, order: Order) -> Result<u64, LockError> {
        Ok(hold.token().get() + order.id)
    }

    #[distributed_lock(key = &self.tenant, client = self.client, wait = self.patience)]
    async fn expressions(&mut self) -> Result<&mut u64, LockError> {
        self.sold += 1;
        Ok(&mut self.sold)
    }

    #[distributed_lock(
        key = "{self.tenant}",
        client = &self.client,
        wait = "2s",
        lease = "10s",
        on_busy = error,
        on_lost = finish,
        guard = hold,
        crate = ::lock_runtime
    )]
    async fn everything(mut self) -> Result<Self, LockError> {
        use std::cmp::max;
        const LEAST: u64 = 1;
        const fn twice(x: u64) -> u64 {
            x * 2
        }
        self.sold = max(LEAST, twice(hold.token().get()));
        Ok(self)
    }

    #[distributed_lock(key = "shops", lease = watchdog("45s"), on_lost = cancel)]
    async fn associated() -> Result<Option<u64>, LockError> {
        Ok(None)
    }
}

trait Till {
    async fn open(&mut self, id: u64) -> Result<(), LockError>;
}

impl Till for Shop {
    #[distributed_lock(key = "till:{id}", wait = none)]
    async fn open(&mut self, id: u64) -> Result<(), LockError> {
        self.sold = id;
        Ok(())
    }
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn unit() {}

#[distributed_lock(key = "nightly", on_busy = skip, wait = "1s")]
async fn option() -> Option<u64> {
    Some(3)
}

#[distributed_lock(key = "nightly", map_err = io::Error::other)]
async fn mapped() -> io::Result<u64> {
    Ok(4)
}

#[distributed_lock(key = "stock", when = !dry, guard = hold, on_busy = fallback(never))]
async fn perhaps_or(dry: bool) -> Result<bool, LockError> {
    Ok(hold.is_some())
}

async fn never(dry: bool) -> Result<bool, LockError> {
    yield_now().await;
    Ok(dry)
}

#[distributed_lock(key = "{name}", wait = Wait::None)]
async fn mutable(mut name: String) -> Result<String, LockError> {
    name.push('!');
    Ok(name)
}

#[distributed_lock(key = "{a}:{c}")]
async fn patterns((a, (_, c)): (u8, (u8, u8)), _: u8) -> Result<u8, LockError> {
    Ok(a + c)
}

#[distributed_lock(key = "{id}", lease = Duration::from_secs(lease))]
async fn generic<'a, T: Debug + Sync>(
    id: impl KeyPart,
    lease: u64,
    value: &'a T,
) -> Result<&'a T, LockError> {
    if lease == 0 {
        return Ok(value);
    }
    println!("{value:?}");
    Ok(value)
}

#[distributed_lock(key = "hidden")]
async fn hidden(values: &[u64]) -> Result<impl IntoIterator<Item = &u64>, LockError> {
    Ok(values.iter())
}

#[distributed_lock(key = "block")]
async fn block(x: u64) -> Result<u64, LockError> {
    match x {
        0 => Err(LockError::Closed),
        4.. => Ok(3),
        _ => {
            yield_now().await;
            Ok(x)
        }
    }
}

#[distributed_lock(keys = ["acct:{from}", key("acct:{}", to + 1)], guard = hold)]
async fn several(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(hold.token().get() + from + to)
}

#[distributed_lock(key = "outer:{id}", kind = write, guard = outer)]
#[distributed_lock(key = "inner:{id}", kind = fair, guard = inner)]
#[distributed_lock(key = "innermost", kind = semaphore(3), max_hold = "1m", when = id > 0)]
async fn stacked(id: u64) -> Result<bool, LockError> {
    Ok(outer.token() != inner.token() && id > 0)
}

#[distributed_lock(key = "maybe", when = *locked, kind = read, on_release_lost = error)]
async fn conditional(locked: &bool) -> Result<bool, LockError> {
    Ok(!locked)
}

#[distributed_lock(key = "cached:{id}", wait = none, on_busy = fallback(from_cache))]
async fn fresh(id: u64, mut name: String) -> Result<String, LockError> {
    name.push('f');
    Ok(format!("{name}{id}"))
}

async fn from_cache(id: u64, name: String) -> Result<String, LockError> {
    yield_now().await;
    Ok(format!("{name}c{id}"))
}

#[distributed_lock(key = "future:{id}", kind = semaphore(limit))]
fn returns_a_future(id: u64, limit: u32) -> impl Future<Output = Result<u64, LockError>> + Send {
    let later = id + 1;
    async move { Ok(later + u64::from(limit)) }
}

#[distributed_lock(key = "{name}", at_least = Duration::from_millis(1))]
fn boxed(name: &str) -> Pin<Box<dyn Future<Output = Result<usize, LockError>> + Send + '_>> {
    if name.is_empty() {
        return Box::pin(ready(Ok(0)));
    }
    Box::pin(async move { Ok(name.len()) })
}

#[async_trait]
trait Teller {
    async fn tell(&self, line: (u64, &str), mut times: u64) -> Result<u64, LockError>;

    #[distributed_lock(key = "{what}", on_busy = skip)]
    async fn defaulted(&self, what: &str) {
        println!("{what}");
    }
}

#[async_trait]
impl Teller for Shop {
    #[distributed_lock(key = "{self.tenant}:{name}", client = self.client, wait = self.patience)]
    async fn tell(&self, (number, name): (u64, &str), mut times: u64) -> Result<u64, LockError> {
        times += self.sold;
        println!("{name}");
        Ok(number * times)
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Shop {
    #[distributed_lock(key = "{self.tenant}", guard = hold, at_least = "1ms")]
    #[distributed_lock(keys = ["a", "b"], wait = self.patience, lease = watchdog(self.patience))]
    fn hidden(&self, line: (u64, String)) -> impl Future<Output = Result<u64, LockError>> + Send {
        let token = hold.token().get();
        async move { Ok(self.sold + token + line.0) }
    }

    #[distributed_lock(key = "{self.sold}", max_hold = self.patience * 2, on_busy = skip)]
    fn alias<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<&'a str>> {
        Box::pin(async move { (self.sold > 0).then_some(name) })
    }

    #[distributed_lock(key = "{order.id}", kind = semaphore(order.number().try_into().unwrap_or(1)))]
    async fn fields(&self, mut order: Order, (x, _): (u64, u64)) -> Result<String, LockError> {
        order.id += x;
        order.place.1.push('!');
        Ok(order.place.1)
    }
}

#[distributed_lock(keys = names.iter().copied(), on_busy = skip, when = !names.is_empty())]
async fn listed(names: &[&str]) -> Result<Option<usize>, LockError> {
    Ok(Some(names.len()))
}

#[async_trait(?Send)]
trait Porter {
    async fn open(self: Arc<Self>, doors: Vec<u64>) -> Result<usize, LockError>;
    async fn shut<T: KeyPart>(self, door: T) -> Result<T, LockError>;
}

#[async_trait(?Send)]
impl Porter for Order {
    #[distributed_lock(keys = ["a", "b:{self.id}"], guard = hold)]
    #[distributed_lock(key = "c", when = doors.len() > 1)]
    async fn open(self: Arc<Self>, doors: Vec<u64>) -> Result<usize, LockError> {
        yield_now().await;
        Ok(doors.len() + usize::from(hold.is_lost()))
    }

    #[distributed_lock(key = "{door}", on_busy = fallback(Self::shut_already))]
    async fn shut<T: KeyPart>(mut self, door: T) -> Result<T, LockError> {
        self.id += 1;
        Ok(door)
    }
}

impl Order {
    async fn shut_already<T: KeyPart>(self, door: T) -> Result<T, LockError> {
        yield_now().await;
        Ok(door)
    }
}

macro_rules! made_by_a_macro {
    ($name:ident, $argument:ident, $body:block) => {
        #[distributed_lock(key = "made")]
        async fn $name($argument: u64) -> Result<u64, LockError> $body
    };
}

made_by_a_macro!(made, id, { Ok(id) });

#[rustfmt::skip]
#[distributed_lock(key = "line")]
async fn on_one_line(x: u64) -> Result<u64, LockError> { Ok(x) }

#[rustfmt::skip]
#[distributed_lock(key = "line", on_busy = skip)]
async fn on_one_line_without_value() { yield_now().await }
