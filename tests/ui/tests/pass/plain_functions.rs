//! Plain functions of every form: the lock is held on the caller's thread.

use std::fmt::Display;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, LockGuard, block_on, distributed_lock};

struct Path<T>(T);

struct Shop {
    tenant: String,
    locks: LockClient,
    sold: u64,
}

trait Till {
    fn pay(&mut self, cents: u64) -> Result<&mut u64, LockError>;

    #[distributed_lock(key = "till")]
    fn open(&self) -> Result<bool, LockError> {
        Ok(true)
    }
}

impl Till for Shop {
    #[distributed_lock(key = "{self.tenant}:till", client = self.locks, wait = "1s", on_lost = finish)]
    fn pay(&mut self, cents: u64) -> Result<&mut u64, LockError> {
        self.sold += cents;
        Ok(&mut self.sold)
    }
}

impl Shop {
    #[distributed_lock(key = "{self.tenant}:{id}", client = &self.locks, guard = hold)]
    fn borrowed<'a>(&'a self, Path(id): Path<u64>, text: &'a str) -> Result<&'a str, LockError> {
        fn token(hold: &LockGuard) -> u64 {
            hold.token().get()
        }
        hold.check()?;
        assert!(token(hold) > 0 && id == 7);
        Ok(text)
    }

    #[distributed_lock(key = "{self.tenant}", client = self.locks)]
    fn by_value(self) -> Result<String, LockError> {
        Ok(self.tenant)
    }
}

#[distributed_lock(key("generic:{}", value.to_string()), lease = lease, kind = fair)]
fn generic<T: Display>(value: T, lease: Duration) -> Result<impl Display, LockError> {
    Ok(format!("<{value}>"))
}

#[distributed_lock(keys = ["acct:{from}", "acct:{to}"])]
fn transfer(from: u64, to: u64, log: &mut Vec<u64>) -> Result<(), LockError> {
    log.push(from);
    if from == to {
        return Err(LockError::timed_out("the same account", Duration::ZERO));
    }
    log.push(to);
    Ok(())
}

#[distributed_lock(key = "nightly", on_busy = skip)]
fn nightly() {}

#[distributed_lock(key = "prices", kind = read)]
#[distributed_lock(key = "item:{id}", guard = item)]
pub(crate) fn reprice(id: u64) -> Result<u64, LockError> {
    Ok(item.token().get())
}

/// What the body owns is dropped before the lock is released.
struct Asks(LockClient);

impl Drop for Asks {
    fn drop(&mut self) {
        let is_free = std::thread::scope(|scope| {
            let asks = || block_on(self.0.mutex("owned").try_lock()).unwrap().is_some();
            scope.spawn(asks).join().unwrap()
        });
        assert!(!is_free, "released before the argument was dropped");
    }
}

#[distributed_lock(key = "owned")]
fn owns(value: Asks) -> Result<(), LockError> {
    let _value = &value;
    Ok(())
}

#[test]
fn runs() -> Result<(), LockError> {
    let locks = LockClient::in_memory();
    let mut shop = Shop { tenant: "t".to_owned(), locks: locks.clone(), sold: 1 };
    assert_eq!(*shop.pay(2)?, 3);
    assert_eq!(shop.borrowed(Path(7), "text")?, "text");
    locks.scope_blocking(|| {
        assert!(shop.open()?);
        assert_eq!(generic(3, Duration::from_secs(1))?.to_string(), "<3>");
        let mut log = Vec::new();
        transfer(1, 2, &mut log)?;
        assert!(transfer(3, 3, &mut log).is_err());
        assert_eq!(log, [1, 2, 3]);
        nightly();
        assert!(reprice(3)? > 0);
        owns(Asks(locks.clone()))
    })?;
    assert_eq!(shop.by_value()?, "t");
    Ok(())
}
