use lock_runtime::distributed_lock;

#[distributed_lock(key = "nightly")]
extern "C" fn callback() {}

fn main() {}
