//! On plain functions.

use std::io;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, block_on, distributed_lock};

struct Shop {
    client: LockClient,
    tenant: String,
    patience: Duration,
    sold: u64,
}

impl Shop {
    #[distributed_lock(key = "{self.tenant}:{id}", client = self.client, guard = hold)]
    fn with_hold(&self, id: u64) -> Result<u64, LockError> {
        hold.check()?;
        Ok(hold.token().get() + id)
    }

    #[distributed_lock(key = &self.tenant, client = self.client, wait = self.patience)]
    fn expressions(&mut self) -> Result<&mut u64, LockError> {
        self.sold += 1;
        Ok(&mut self.sold)
    }

    #[distributed_lock(key = "{self.tenant}", guard = hold, on_busy = fallback(Self::cached))]
    fn fresh_with_hold(&self, item: &str) -> Result<String, LockError> {
        Ok(format!("{item} {}", hold.is_lost()))
    }

    fn cached(&self, item: &str) -> Result<String, LockError> {
        let is_free = block_on(self.client.mutex(item).try_lock())?.is_some();
        Ok(format!("{item} {} {}", self.tenant, is_free))
    }
}

#[distributed_lock(key = "nightly", on_busy = skip)]
fn unit() {}

#[distributed_lock(key = "nightly", on_busy = skip, guard = hold)]
fn option() -> Option<u64> {
    Some(hold.token().get())
}

#[distributed_lock(key = "nightly", map_err = io::Error::other)]
fn mapped() -> io::Result<u64> {
    Ok(4)
}

#[distributed_lock(key = "stock", when = !dry, guard = hold, on_busy = fallback(never))]
fn perhaps_or(dry: bool) -> Result<bool, LockError> {
    Ok(hold.is_some())
}

fn never(dry: bool) -> Result<bool, LockError> {
    Ok(dry && LockClient::in_memory().mutex("stock").blocking_lock()?.check().is_ok())
}

#[distributed_lock(key = "{name}")]
fn mutable(mut name: String) -> Result<String, LockError> {
    name.push('!');
    Ok(name)
}

#[distributed_lock(key = "outer")]
#[distributed_lock(key = "inner", guard = hold)]
fn stacked(flag: bool) -> Result<bool, LockError> {
    if !flag {
        return Ok(false);
    }
    Ok(!hold.is_lost())
}

#[rustfmt::skip]
#[distributed_lock(key = "one-line")]
fn on_one_line(number: u64) -> Result<u64, LockError> { Ok(number) }
