use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    quoted() [key = "nightly", kind = "fair"]
    misspelt() [key = "nightly", kind = reed]
    unknown() [key = "nightly", kind = spin]
    called() [key = "nightly", kind(fair)]
    path() [key = "nightly", kind = HoldKind::Fair]
    by_another_name() [key = "nightly", type = fair]
    no_limit() [key = "nightly", kind = semaphore]
    empty() [key = "nightly", kind = semaphore()]
    two_limits() [key = "nightly", kind = semaphore(1, 2)]
    zero() [key = "nightly", kind = semaphore(0)]
    negative() [key = "nightly", kind = semaphore(-1)]
    too_many() [key = "nightly", kind = semaphore(4294967296)]
    text() [key = "nightly", kind = semaphore("3")]
}

fn main() {}
