//! Writers that leave no gap, and how readers fare beside them (S-27).

use crate::prelude::*;

const WRITE: Duration = ms(10);

/// Writers that come without a pause, several tasks of each client, and how many have written.
struct Writers {
    stop: Arc<AtomicBool>,
    grants: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Result<u64, LockError>>>,
}

impl Writers {
    fn start(clients: &[LockClient], name: &str) -> Self {
        let (stop, grants) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let write = |client: &LockClient| {
            let lock = client.rw_lock(name);
            let (stop, grants) = (Arc::clone(&stop), Arc::clone(&grants));
            lock_tests::spawn(async move {
                let mut writes = 0;
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.write().await?;
                    grants.fetch_add(1, Ordering::Relaxed);
                    sleep(WRITE).await;
                    guard.release().await?;
                    writes += 1;
                }
                Ok(writes)
            })
        };
        let tasks = clients.iter().flat_map(|client| [write(client), write(client)]).collect();
        Self { stop, grants, tasks }
    }

    fn granted(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    async fn end(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut writes = Vec::new();
        for task in self.tasks {
            writes.push(timeout(SOON, task).await.expect("a writer starved").unwrap().unwrap());
        }
        writes
    }
}

/// How many writers overtook each of the reads: those that were granted between question and grant.
async fn overtaken(lock: RwLock, writers: &Writers, reads: usize) -> Result<Vec<u64>, LockError> {
    let mut overtaken = Vec::new();
    for _ in 0..reads {
        let before = writers.granted();
        let guard = lock.read().await?;
        overtaken.push(writers.granted() - before);
        sleep(WRITE / 4).await;
        guard.release().await?;
        sleep(WRITE / 4).await;
    }
    overtaken.sort_unstable();
    Ok(overtaken)
}

/// One writer may be in the lock's way when a reader comes, and one more may be granted before the reader's
/// request arrives. On a busy machine that takes longer now and then.
fn has_its_turns(mut overtaken: Vec<u64>, whose: &str) {
    overtaken.sort_unstable();
    println!("{whose}: overtaken {overtaken:?}");
    assert!(overtaken[overtaken.len() / 2] <= 2, "{whose}: overtaken by {overtaken:?} writers");
    assert!(*overtaken.last().unwrap() <= 8, "{whose}: overtaken by {overtaken:?} writers");
}

/// Reads beside writers of two processes that leave no gap, as a process of its own and as one that writes
/// as well, on equal and on other terms.
pub(crate) async fn reads_beside_writers(
    writers: &[LockClient],
    readers: &[LockClient],
    name: &str,
) {
    let stream = Writers::start(writers, name);
    let fixed = LockOptions::new().lease(Lease::Fixed(SOON)).wait(Wait::UpTo(SOON));
    let patient = waits(Wait::UpTo(SOON));
    let reads = readers.iter().flat_map(|client| {
        [(patient.clone(), "shared"), (patient.clone(), "shared, too"), (fixed.clone(), "fixed")]
            .map(|(options, whose)| (client.rw_lock(name).with(options), whose))
    });
    let reads = reads.map(async |(lock, whose)| (overtaken(lock, &stream, 30).await, whose));
    for (overtaken, whose) in futures_util::future::join_all(reads).await {
        has_its_turns(overtaken.unwrap_or_else(|error| panic!("{whose}: {error}")), whose);
    }
    let writes = stream.end().await;
    assert!(writes.iter().all(|writes| *writes >= 5), "writers starved: {writes:?}");
}
