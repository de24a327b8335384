//! Commands about semaphores.
//!
//! - `take <name> <limit> <permits> <lease ms>`: takes permits with a watchdog lease, answers
//!   `took`, and keeps them.
//! - `permits <name> <limit> <tasks> <ms> <lease ms>`: that many tasks take one or more permits and
//!   give them back for that long; answers `permits <grants> <grants of more than one>`.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_runtime::{Lease, LockError, LockOptions, Semaphore};
use lock_tests::history::Op;
use tokio::time::{Instant, sleep};

use crate::Worker;

/// Task numbers of one task: each permit is recorded as a hold of its own.
const PERMITS_PER_TASK: u64 = 16;

impl Worker {
    fn semaphore(&self, name: &str, limit: u32, lease: u64) -> Result<Semaphore, LockError> {
        let lease = Lease::Watchdog(Duration::from_millis(lease));
        let options = LockOptions::builder().lease(lease).build()?;
        Ok(self.client.semaphore(name, some(limit)).with(options))
    }

    pub(crate) async fn take(
        &self,
        name: &str,
        limit: u32,
        permits: u32,
        lease: u64,
    ) -> Result<(), LockError> {
        let semaphore = self.semaphore(name, limit, lease)?;
        let permit = semaphore.acquire_many(some(permits)).await?;
        println!("took");
        let error = permit.guard().lost().await;
        println!("lost {error}");
        Ok(())
    }

    pub(crate) async fn permits(&self, name: &str, limit: u32, tasks: u64, ms: u64, lease: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        let task = |task: u64| {
            let (worker, name) = (self.clone(), name.to_owned());
            tokio::spawn(async move { worker.use_permits(task, &name, limit, lease, until).await })
        };
        let (mut grants, mut of_several) = (0, 0);
        for task in (0..tasks).map(task).collect::<Vec<_>>() {
            match task.await {
                Ok(Ok((one, several))) => {
                    (grants, of_several) = (grants + one, of_several + several)
                }
                Ok(Err(error)) => return println!("error {error}"),
                Err(error) => return println!("error {error}"),
            }
        }
        println!("permits {grants} {of_several}");
    }

    async fn use_permits(
        &self,
        task: u64,
        name: &str,
        limit: u32,
        lease: u64,
        until: Instant,
    ) -> Result<(u64, u64), LockError> {
        let semaphore = self.semaphore(name, limit, lease)?;
        let (mut grants, mut of_several) = (0, 0);
        while Instant::now() < until {
            let wanted = some(fastrand::u32(1..=limit.min(3)));
            let record = |op: Op| {
                for permit in 0..u64::from(wanted.get()) {
                    self.recorder.record(PERMITS_PER_TASK * task + permit, name, op);
                }
            };
            record(Op::AcquireInvoked);
            let permit = semaphore.acquire_many(wanted).await?;
            record(Op::Acquired { token: Some(permit.guard().token().get()), valid_until: None });
            grants += 1;
            of_several += u64::from(wanted.get() > 1);
            sleep(Duration::from_millis(fastrand::u64(0..3))).await;
            record(Op::ReleaseInvoked);
            permit.release().await?;
            record(Op::Released);
        }
        Ok((grants, of_several))
    }
}

fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}
