//! The same locks in the hands of the real Redisson and of this library (S-2, S-4, S-25 to S-30).
//!
//! Each test starts a `redis-server` and a JVM with a Redisson client (`tests/interop`), and holds a
//! lock on one side to see what the other makes of it, both ways round. They are left out of the
//! ordinary run, which needs no JDK: `cargo xtask interop` builds the Java side and runs them.

/// A test with a server, a JVM and clients of ours; with other settings of Redisson than its defaults, if they are given.
macro_rules! interop {
    ($name:ident, $body:expr) => {
        interop!($name, crate::interop::java::Redisson::default(), $body);
    };
    ($name:ident, $redisson:expr, $body:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "needs a JDK and Maven: cargo xtask interop"]
        async fn $name() {
            lock_tests::work_with(crate::interop::world::World::with($redisson), $body).await;
        }
    };
}

mod crashes;
mod fair;
mod fair_line;
mod forced;
mod hammer;
mod java;
mod latch;
mod multi;
mod mutex;
mod rw;
mod semaphore;
mod shares;
mod survey;
mod world;
