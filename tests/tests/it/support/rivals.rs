//! Clients that want one lock all the time, each as a process of its own would.

use crate::prelude::*;

/// No task waits for so long, on however busy a machine.
const STARVED: Duration = secs(30);

/// What clients want, and how often.
#[derive(Clone)]
pub(crate) struct Rivalry {
    /// `mutex`, `write`, `permit` (the only one) or `multi` (two names).
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) options: LockOptions,
    pub(crate) hold: Duration,
    pub(crate) time: Duration,
}

/// Who had the lock, in order, and what it took.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The number of the client for each hold.
    pub(crate) order: Vec<usize>,
    /// The longest that a task of each client waited.
    pub(crate) longest_wait: Vec<Duration>,
}

impl Turns {
    /// How many holds of a hundred followed one of another client.
    pub(crate) fn handed_over(&self) -> usize {
        let pairs = || self.order.windows(2);
        pairs().filter(|pair| pair[0] != pair[1]).count() * 100 / pairs().count().max(1)
    }

    pub(crate) fn count(&self, client: usize) -> usize {
        self.order.iter().filter(|one| **one == client).count()
    }
}

/// Has each client's tasks take and release the lock over and over.
pub(crate) async fn compete(clients: &[(LockClient, usize)], rivalry: Rivalry) -> Turns {
    let turns = Turns { longest_wait: vec![Duration::ZERO; clients.len()], ..Turns::default() };
    let turns = Arc::new(Mutex::new(turns));
    let until = Instant::now() + rivalry.time;
    let mut tasks = Vec::new();
    for (number, (client, count)) in clients.iter().enumerate() {
        for _ in 0..*count {
            let (client, turns) = (client.clone(), Arc::clone(&turns));
            let rivalry = rivalry.clone();
            tasks.push(lock_tests::spawn(async move {
                while Instant::now() < until {
                    let from = Instant::now();
                    let guard = timeout(STARVED, take(&client, rivalry.clone())).await;
                    let guard = guard.expect("starved").unwrap();
                    {
                        let mut turns = turns.lock().unwrap();
                        turns.order.push(number);
                        let longest = &mut turns.longest_wait[number];
                        *longest = from.elapsed().max(*longest);
                    }
                    sleep(rivalry.hold).await;
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    joined(tasks).await;
    std::mem::take(&mut *turns.lock().unwrap())
}

async fn take(client: &LockClient, rivalry: Rivalry) -> Result<LockGuard, LockError> {
    let Rivalry { kind, name, options, .. } = rivalry;
    match kind {
        "mutex" => client.mutex(name).with(options).lock().await,
        "write" => client.rw_lock(name).with(options).write().await,
        "permit" => {
            let semaphore = client.semaphore(name, 1).with(options);
            semaphore.acquire().await
        }
        "multi" => {
            let names = ["a", "b"].map(|part| format!("{{{name}}}{part}"));
            client.multi_lock(names).with(options).lock().await
        }
        _ => panic!("there is no kind {kind}"),
    }
}
