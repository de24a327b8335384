#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    argument_twice() [key = "nightly", wait = none, key = "daily"]
    misspelt() [key = "nightly", leese = "10s"]
    by_another_name() [key = "nightly", timeout = "10s"]
    unheard_of() [key = "nightly", colour(red)]
    job() [key = "nightly", wait]
    called() [key = "nightly", wait("2s")]
    no_comma() [key = "nightly" wait = none]
    no_value() [key =]
    colon() [key: "nightly"]
    guard_of_nothing(id: u64) [key = "a", guard = id, when = id > 0]
}

#[distributed_lock(key = "a", wait = forever, on_busy = skip)]
async fn never_skipped(id: u64) {}

annotated! {
    never_replaced(id: u64) [key = "a", wait = forever, on_busy = fallback(never_skipped)]
    crate_path() [key = "nightly", crate = "lock_runtime"]
}

#[distributed_lock(key = "order:{nr}", wait = "2", lease = "10ms", on_busy = ignore)]
fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

annotated! {
    unquoted() [key = "nightly", policy = checkout]
    empty() [key = "nightly", policy = ""]
    none() [key = "nightly", policy = "none"]
    policy_name_by_another_name() [key = "nightly", config = "checkout"]
    quoted() [key = "nightly", guard = "hold"]
    keyword() [key = "nightly", guard = self]
    constant() [key = "nightly", guard = None]
    no_name() [key = "nightly", guard = _]
    reference() [key = "nightly", guard = &hold]
    hides_an_argument(hold: u64) [key = "order:{hold}", guard = hold]
    on_busy_choice_quoted() [key = "nightly", on_busy = "skip"]
    unknown_busy() [key = "nightly", on_busy = wait]
    unknown_lost() [key = "nightly", on_lost = ignore]
    on_release_lost_choice_quoted() [key = "nightly", on_release_lost = "error"]
    unknown() [key = "nightly", on_release_lost = ignore]
}

async fn cached(id: u64) -> Result<(), LockError> {
    Ok(())
}

annotated! {
    no_path(id: u64) [key = "a", on_busy = fallback]
    on_busy_fallback_quoted(id: u64) [key = "a", on_busy = fallback("cached")]
    on_busy_fallback_called(id: u64) [key = "a", on_busy = fallback(cached(id))]
    two(id: u64) [key = "a", on_busy = fallback(cached, cached)]
    on_busy_fallback_no_name((id, _): (u64, u64)) [key = "a", on_busy = fallback(cached)]
    ignored(_: u64) [key = "a", on_busy = fallback(cached)]
    on_some_systems(id: u64, #[cfg(unix)] user: u64) [key = "a", on_busy = fallback(cached)]
    as_an_argument(id: u64) [key = "a", fallback = cached]
}

// The refused function is still there, so that its callers have no errors of their own.
fn main() {
    let _ = pay(1);
}
