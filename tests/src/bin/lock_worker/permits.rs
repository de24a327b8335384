//! Commands about semaphores.
//!
//! - `take <name> <limit> <permits> <lease ms>`: takes permits with a watchdog lease, answers
//!   `took`, and keeps them.
//! - `permits <name> <limit> <tasks> <ms> <lease ms>`: that many tasks take one or more permits and
//!   give them back for that long; answers `permits <grants> <grants of more than one>`.

use std::time::Duration;

use lock_runtime::{Lease, LockError, LockOptions, Semaphore};
use lock_tests::history::Share;
use lock_tests::witness::Witness;
use tokio::time::{Instant, sleep};

use crate::{EFFECT_EVERY, Failure, KEEPER, Worker};

impl Worker {
    fn semaphore(&self, name: &str, limit: u32, lease: u64) -> Semaphore {
        let lease = Lease::Watchdog(Duration::from_millis(lease));
        self.client.semaphore(name, limit).with(LockOptions::new().lease(lease))
    }

    pub(crate) async fn take(
        &self,
        name: &str,
        limit: u32,
        permits: u32,
        lease: u64,
    ) -> Result<(), Failure> {
        let semaphore = self.semaphore(name, limit, lease);
        let share = Share::Permits { count: permits, limit };
        let witness = Witness::new(&self.recorder, KEEPER, name, share);
        let held = witness.acquire(semaphore.acquire_many(permits)).await?;
        println!("took");
        println!("lost {}", held.effects(EFFECT_EVERY, true).await);
        Ok(())
    }

    pub(crate) async fn permits(
        &self,
        name: &str,
        limit: u32,
        tasks: u64,
        ms: u64,
        lease: u64,
    ) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_millis(ms);
        let task = |task: u64| {
            let (worker, name) = (self.clone(), name.to_owned());
            tokio::spawn(async move { worker.use_permits(task, &name, limit, lease, until).await })
        };
        let (mut grants, mut of_several) = (0, 0);
        for task in (0..tasks).map(task).collect::<Vec<_>>() {
            let (one, several) = task.await??;
            (grants, of_several) = (grants + one, of_several + several);
        }
        println!("permits {grants} {of_several}");
        Ok(())
    }

    async fn use_permits(
        &self,
        task: u64,
        name: &str,
        limit: u32,
        lease: u64,
        until: Instant,
    ) -> Result<(u64, u64), LockError> {
        let semaphore = self.semaphore(name, limit, lease);
        let (mut grants, mut of_several) = (0, 0);
        while Instant::now() < until {
            let wanted = fastrand::u32(1..=limit.min(3));
            let share = Share::Permits { count: wanted, limit };
            let witness = Witness::new(&self.recorder, task, name, share);
            let mut held = witness.acquire(semaphore.acquire_many(wanted)).await?;
            grants += 1;
            of_several += u64::from(wanted > 1);
            held.effect();
            sleep(Duration::from_millis(fastrand::u64(0..3))).await;
            held.effect();
            held.release().await?;
        }
        Ok((grants, of_several))
    }
}
