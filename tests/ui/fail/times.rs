use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    zero() [key = "nightly", at_least = "0s"]
    too_long() [key = "nightly", at_least = "25h"]
    number() [key = "nightly", at_least = 5]
    no_time() [key = "nightly", at_least = "soon"]
    longer_than_the_lease() [key = "nightly", lease = "10s", at_least = "1m"]
    longer_than_max_hold() [key = "nightly", at_least = "1m", max_hold = "10s"]
    max_hold_zero() [key = "nightly", max_hold = "0s"]
    max_hold_no_time() [key = "nightly", max_hold = true]
    nothing_to_renew() [key = "nightly", lease = "10s", max_hold = "5s"]
    fixed() [key = "nightly", lease = "99ms"]
    watchdog() [key = "nightly", lease = watchdog("0s")]
    lease_out_of_range_too_long() [key = "nightly", lease = "2 days"]
    text() [key = "nightly", wait = "2"]
    wait_without_unit_number() [key = "nightly", wait = 2]
    unquoted() [key = "nightly", wait = 250ms]
    negative() [key = "nightly", wait = -1]
    wait_zero() [key = "nightly", wait = "0s"]
    release_timeout_without_unit() [key = "a", release_timeout = "250"]
    release_timeout_without_quotes() [key = "a", release_timeout = 1]
}

fn main() {}
