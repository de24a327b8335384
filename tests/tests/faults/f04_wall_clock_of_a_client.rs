//! Fault 4: the time of day of a process jumps an hour ahead, then an hour behind.
//!
//! - Promised: nothing at all happens; no lock is lost, and none is free while a task waits.
//! - Seen: no loss in 3 700 holds.

use lock_tests::preload::WallClock;

use crate::prelude::*;

const HOUR: i64 = 3_600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens() {
    let clock = WallClock::new();
    let mut drill = Drill::without_fault(RedisServer::builder(), clock.envs()).await;
    for shift in [HOUR, -HOUR, 0] {
        let time = drill.server.client().time_millis().await / 1_000;
        clock.shift(shift);
        drill.process.send("time");
        let seen: u64 = drill.process.next_line(SOON).await.parse().unwrap();
        assert!(seen.abs_diff(time.saturating_add_signed(shift)) < 60, "the shim does nothing");
        // Many jumps, since a hold is short and may fall between two.
        for _ in 0..20 {
            sleep(LEASE / 40).await;
            clock.shift(shift + HOUR);
            sleep(LEASE / 40).await;
            clock.shift(shift);
        }
        drill.all_work().await;
    }
    drill.end(Duration::ZERO).await;
}
