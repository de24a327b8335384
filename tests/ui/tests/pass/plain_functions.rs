//! Plain functions of every form: the lock is held on the caller's thread.

use std::fmt::Display;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, block_on, distributed_lock};

struct Path<T>(T);

struct Shop {
    tenant: String,
    locks: LockClient,
}

trait Till {
    #[distributed_lock(key = "till")]
    fn open(&self) -> Result<bool, LockError> {
        Ok(true)
    }
}

impl Till for Shop {}

impl Shop {
    #[distributed_lock(key = "{self.tenant}:{id}", client = &self.locks, guard = hold)]
    fn borrowed<'a>(&'a self, Path(id): Path<u64>, text: &'a str) -> Result<&'a str, LockError> {
        assert_eq!(hold.key().as_str(), format!("t:{id}"));
        Ok(text)
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
    let shop = Shop { tenant: "t".to_owned(), locks: locks.clone() };
    assert_eq!(shop.borrowed(Path(7), "text")?, "text");
    locks.scope_blocking(|| {
        assert!(shop.open()?);
        assert_eq!(generic(3, Duration::from_secs(1))?.to_string(), "<3>");
        let mut log = Vec::new();
        transfer(1, 2, &mut log)?;
        assert!(transfer(3, 3, &mut log).is_err());
        assert_eq!(log, [1, 2, 3]);
        owns(Asks(locks.clone()))
    })
}
