//! Threads of every origin: one holder at a time, across clients as of several processes.

use rayon::prelude::*;

use crate::prelude::*;

const JOBS: usize = 40;

#[distributed_lock(key = "counter")]
fn annotated(add_one: &dyn Fn()) -> Result<(), LockError> {
    add_one();
    Ok(())
}

/// Has `pool` run all jobs, in memory and on Redis. Each adds one with one of two clients: by a guard, by `run`, or by an annotated
/// function.
fn all_jobs(pool: impl Fn(Arc<dyn Fn(usize) + Send + Sync>)) {
    let tools = Tools::start();
    let in_memory = LockClient::in_memory();
    for clients in [[tools.client(), tools.client()], [in_memory.clone(), in_memory]] {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        pool(Arc::new(move |number| {
            let client = &clients[number % 2];
            // Loses updates unless one thread at a time adds.
            let add_one = || {
                let seen = counted.load(Ordering::SeqCst);
                thread::sleep(Duration::from_micros(300));
                counted.store(seen + 1, Ordering::SeqCst);
            };
            match number % 3 {
                0 => {
                    let guard = client.mutex("counter").blocking_lock().unwrap();
                    add_one();
                    guard.blocking_release().unwrap();
                }
                1 => client.mutex("counter").run_blocking(|_| add_one()).unwrap(),
                _ => client.scope_blocking(|| annotated(&add_one)).unwrap(),
            }
        }));
        assert_eq!(count.load(Ordering::SeqCst), JOBS as u64, "updates were lost");
    }
}

#[test]
fn a_rayon_pool() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(6).build().unwrap();
    all_jobs(|job| pool.install(|| (0..JOBS).into_par_iter().for_each(|number| job(number))));
}

#[test]
fn spawn_blocking_and_block_in_place() {
    let runtime = runtime();
    all_jobs(|job| {
        let jobs = (0..JOBS).map(|number| {
            let job = Arc::clone(&job);
            let call = move || job(number);
            match number % 5 {
                0 => runtime.spawn(async move { tokio::task::block_in_place(call) }),
                _ => runtime.spawn_blocking(call),
            }
        });
        jobs.collect::<Vec<_>>().into_iter().for_each(|job| runtime.block_on(job).unwrap());
    });
}

/// S-26: threads of two clients are served in the order in which they came.
#[test]
fn a_fair_mutex_serves_threads_in_order() {
    let tools = Tools::start();
    let clients = [tools.client(), tools.client()];
    let held = clients[0].fair_mutex("line").blocking_lock().unwrap();
    let served = std::sync::Mutex::new(Vec::new());
    thread::scope(|threads| {
        for number in 0..8 {
            let (lock, served) = (clients[number % 2].fair_mutex("line"), &served);
            threads.spawn(move || {
                lock.run_blocking(|hold| served.lock().unwrap().push((number, hold.token())))
            });
            let place = || block_on(clients[0].admin().inspect("line")).unwrap().waiting;
            eventually_blocking(SOON, "it has a place", || place() == number + 1);
        }
        held.blocking_release().unwrap();
    });
    let served = served.into_inner().unwrap();
    assert_eq!(served.len(), 8);
    assert!(served.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "out of order: {served:?}");
}
