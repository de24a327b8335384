//! Threads of every origin: one holder at a time, across clients as of several processes.

use crate::prelude::*;

/// A counter that loses updates unless one thread at a time adds to it.
#[derive(Default)]
struct Counter {
    count: AtomicU64,
}

impl Counter {
    fn add_one(&self) {
        let seen = self.count.load(Ordering::SeqCst);
        thread::sleep(Duration::from_micros(300));
        self.count.store(seen + 1, Ordering::SeqCst);
    }
}

const JOBS: usize = 40;

/// Adds with both clients in turn: by a guard, by `run`, and by an annotated function.
fn job(clients: &[LockClient; 2], number: usize, counter: &Counter) {
    #[distributed_lock(key = "counter")]
    fn annotated(counter: &Counter) -> Result<(), LockError> {
        counter.add_one();
        Ok(())
    }

    let client = &clients[number % 2];
    match number % 3 {
        0 => {
            let guard = client.mutex("counter").blocking_lock().unwrap();
            counter.add_one();
            guard.blocking_release().unwrap();
        }
        1 => client.mutex("counter").run_blocking(|_| counter.add_one()).unwrap(),
        _ => client.scope_blocking(|| annotated(counter)).unwrap(),
    }
}

/// Has `pool` run all jobs, in memory and on Redis.
fn all_jobs(pool: impl Fn(Arc<dyn Fn(usize) + Send + Sync>)) {
    let tools = Tools::start();
    let in_memory = LockClient::in_memory();
    for clients in [[tools.client(), tools.client()], [in_memory.clone(), in_memory]] {
        let counter = Arc::new(Counter::default());
        let inside = Arc::clone(&counter);
        pool(Arc::new(move |number| job(&clients, number, &inside)));
        assert_eq!(counter.count.load(Ordering::SeqCst), JOBS as u64, "updates were lost");
    }
}

#[test]
fn a_rayon_pool() {
    use rayon::prelude::*;

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
    const THREADS: usize = 8;
    let tools = Tools::start();
    let clients = [tools.client(), tools.client()];
    let held = clients[0].fair_mutex("line").blocking_lock().unwrap();
    let served = Arc::new(std::sync::Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (lock, served) = (clients[number % 2].fair_mutex("line"), Arc::clone(&served));
            let waits = thread::spawn(move || {
                lock.run_blocking(|hold| served.lock().unwrap().push((number, hold.token())))
                    .unwrap();
            });
            let place = || block_on(clients[0].admin().inspect("line")).unwrap().waiting;
            eventually_blocking(SOON, "it has a place", || place() == number + 1);
            waits
        })
        .collect();
    held.blocking_release().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let served = served.lock().unwrap();
    assert_eq!(served.len(), THREADS);
    assert!(served.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "out of order: {served:?}");
}
