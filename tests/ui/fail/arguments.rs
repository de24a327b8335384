#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait = none, key = "daily")]
async fn argument_twice() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", leese = "10s")]
async fn misspelt() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", timeout = "10s")]
async fn by_another_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", colour(red))]
async fn unheard_of() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait)]
async fn job() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait("2s"))]
async fn called() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly" wait = none)]
async fn no_comma() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = )]
async fn no_value() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key: "nightly")]
async fn colon() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", guard = id, when = id > 0)]
async fn guard_of_nothing(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", wait = forever, on_busy = skip)]
async fn never_skipped(id: u64) {}

#[distributed_lock(key = "a", wait = forever, on_busy = fallback(never_skipped))]
async fn never_replaced(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", crate = "lock_runtime")]
async fn crate_path() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{nr}", wait = "2", lease = "10ms", on_busy = ignore)]
fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", policy = checkout)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", policy = "")]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", policy = "none")]
async fn none() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", config = "checkout")]
async fn policy_name_by_another_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = "hold")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = self)]
async fn keyword() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = None)]
async fn constant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = _)]
async fn no_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = &hold)]
async fn reference() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{hold}", guard = hold)]
async fn hides_an_argument(hold: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn on_busy_choice_quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_busy = wait)]
async fn unknown_busy() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_lost = ignore)]
async fn unknown_lost() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_release_lost = "error")]
async fn on_release_lost_choice_quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_release_lost = ignore)]
async fn unknown() -> Result<(), LockError> {
    Ok(())
}

async fn cached(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback)]
async fn no_path(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback("cached"))]
async fn on_busy_fallback_quoted(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached(id)))]
async fn on_busy_fallback_called(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached, cached))]
async fn two(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached))]
async fn on_busy_fallback_no_name((id, _): (u64, u64)) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached))]
async fn ignored(_: u64) -> Result<u64, LockError> {
    Ok(0)
}

#[distributed_lock(key = "a", on_busy = fallback(cached))]
async fn on_some_systems(id: u64, #[cfg(unix)] user: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", fallback = cached)]
async fn as_an_argument(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// The refused function is still there, so that its callers have no errors of their own.
fn main() {
    let _ = pay(1);
}
