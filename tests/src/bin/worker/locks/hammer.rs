//! Commands for tasks that take a lock, have effects under it, and release it, again and again for so long.
//!
//! - `hammer <name> <tasks> <ms>`: a mutex, held for 0 or 1 ms; answers `hammered <grants> <fewest> <most>` by task.
//! - `permits <name> <limit> <tasks> <ms> <lease ms>`: one or more permits of a semaphore; answers
//!   `permits <grants> <grants of more than one>`.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_runtime::LockOptions;
use lock_tests::history::Share;
use lock_tests::witness::Witness;
use tokio::time::Instant;

use super::{Failure, Locks, meanwhile, millis, watched, works};

/// Obeys the command, which has to be one of these.
pub(super) fn obey(locks: &Locks, words: &[&str]) -> Result<(), Failure> {
    let locks = locks.clone();
    match *words {
        ["hammer", name, tasks, ms] => {
            let (name, tasks, until) = (name.to_owned(), tasks.parse()?, end(ms)?);
            meanwhile(async move {
                let grants = all(tasks, |task| exclusive(locks.clone(), name.clone(), task, until));
                let grants = grants.await?;
                let (fewest, most) = (grants.iter().min(), grants.iter().max());
                let sum: u64 = grants.iter().sum();
                println!("hammered {sum} {} {}", fewest.unwrap_or(&0), most.unwrap_or(&0));
                Ok(())
            });
        }
        ["permits", name, limit, tasks, ms, lease] => {
            let (name, options, limit) = (name.to_owned(), watched(lease)?, limit.parse()?);
            let (tasks, until) = (tasks.parse()?, end(ms)?);
            meanwhile(async move {
                let grants = all(tasks, |task| {
                    permits(locks.clone(), name.clone(), limit, options.clone(), task, until)
                });
                let grants = grants.await?;
                let several = grants.iter().map(|(_, several)| several).sum::<u64>();
                println!("permits {} {several}", grants.iter().map(|(all, _)| all).sum::<u64>());
                Ok(())
            });
        }
        _ => return Err(format!("there is no such command: {words:?}").into()),
    }
    Ok(())
}

fn end(ms: &str) -> Result<Instant, Failure> {
    Ok(Instant::now() + millis(ms)?)
}

/// What each of so many tasks answers.
async fn all<T, F>(tasks: u64, task: impl Fn(u64) -> F) -> Result<Vec<T>, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let tasks = (0..tasks).map(|number| tokio::spawn(task(number)));
    try_join_all(tasks).await?.into_iter().collect()
}

async fn exclusive(locks: Locks, name: String, task: u64, until: Instant) -> Result<u64, Failure> {
    let (mutex, mut grants) = (locks.client.mutex(&name), 0);
    let witness = Witness::new(&locks.recorder, task, &name, Share::Exclusive);
    let mut values = locks.values;
    while Instant::now() < until {
        let mut held = witness.acquire(mutex.lock()).await?;
        let work = Duration::from_millis(fastrand::u64(0..2));
        // Work for two overlapping holders to be seen at; now and then with a value, which takes a while.
        if fastrand::u8(0..4) == 0 {
            held.update(&mut values, work).await;
        } else {
            works(&mut held, work).await;
        }
        grants += 1;
        held.release().await?;
    }
    Ok(grants)
}

/// All grants, and those of more than one permit.
async fn permits(
    locks: Locks,
    name: String,
    limit: u32,
    options: LockOptions,
    task: u64,
    until: Instant,
) -> Result<(u64, u64), Failure> {
    let semaphore = locks.client.semaphore(&name, limit).with(options);
    let (mut grants, mut of_several) = (0, 0);
    while Instant::now() < until {
        let count = fastrand::u32(1..=limit.min(3));
        let witness = Witness::new(&locks.recorder, task, &name, Share::Permits { count, limit });
        let mut held = witness.acquire(semaphore.acquire_many(count)).await?;
        grants += 1;
        of_several += u64::from(count > 1);
        works(&mut held, Duration::from_millis(fastrand::u64(0..3))).await;
        held.release().await?;
    }
    Ok((grants, of_several))
}
