#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    number() [key = "nightly", lease = 30]
    forever() [key = "nightly", lease = forever]
    no_time() [key = "nightly", lease = watchdog()]
    expression(millis: u64) [key = "nightly", lease = millis]
    text() [key = "nightly", wait = "a while"]
    quoted() [key = "nightly", wait = "forever"]
    misspelt() [key = "nightly", wait = forver]
    wait_not_a_duration_expression(seconds: u64) [key = "nightly", wait = seconds]
    // Expressions of the wrong type are reported where they stand.
    at_least(seconds: u64) [key = "nightly", at_least = seconds]
    max_hold(seconds: u64) [key = "nightly", max_hold = seconds]
    lease(seconds: u64) [key = "nightly", lease = watchdog(seconds)]
    when_not_a_bool_number(id: u64) [key = "a", when = id]
    reference(locked: &bool) [key = "a", when = locked]
    by_another_name(id: u64) [key = "a", condition = id > 0]
    kind_semaphore_expression(limit: u64) [key = "nightly", kind = semaphore(limit)]
}

struct Shop {
    name: String,
}

impl Shop {
    #[distributed_lock(key = "shop", client = self.name)]
    async fn open(&self) -> Result<(), LockError> {
        Ok(())
    }
}

annotated! {
    map_err_unknown() [key = "a", map_err = to_my_error]
    client_misspelt(client: lock_runtime::LockClient) [key = "shop", client = clent]
    address() [key = "shop", client = "redis://127.0.0.1"]
    client_by_another_name(client: lock_runtime::LockClient) [key = "shop", redis = client]
}

fn main() {}
