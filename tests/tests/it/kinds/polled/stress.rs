//! Futures polled at random, some of them not for seconds.

use crate::kinds::polled::*;

/// One that wants the lock again and again.
enum Task {
    Idle,
    /// Polled again from then on.
    Waiting(Acquiring, Instant),
    /// Released from then on.
    Holding(LockGuard, Instant),
}

/// S-17, S-21, S-34: whatever sleeps and for however long, one at a time has the lock, and everybody
/// gets it in the end.
#[tokio::test(start_paused = true)]
async fn random_sleepers_exclude_each_other_and_all_get_on() {
    for kind in KINDS {
        for seed in 0..12 {
            run(kind, seed).await;
        }
    }
}

async fn run(kind: &str, seed: u64) {
    const TASKS: usize = 8;
    let mut random = fastrand::Rng::with_seed(seed);
    let clients = crate::kinds::polled::clients(kind, ms(900));
    let mut tasks: Vec<Task> = (0..TASKS).map(|_| Task::Idle).collect();
    let mut grants = [0; TASKS];
    let mut last_token = 0;
    let start = Instant::now();
    while grants.iter().any(|grants| *grants < 4) {
        let now = Instant::now();
        let waited = start.elapsed();
        assert!(waited < secs(300), "{kind} {seed}: hangs with {grants:?}");
        let number = random.usize(..TASKS);
        let task = std::mem::replace(&mut tasks[number], Task::Idle);
        tasks[number] = match task {
            Task::Idle => Task::Waiting(lock(&clients[number % 2], kind, "k"), now),
            Task::Waiting(waiting, until) if until > now => Task::Waiting(waiting, until),
            // Some give up.
            Task::Waiting(waiting, _) if random.usize(..400) == 0 => {
                drop(waiting);
                Task::Idle
            }
            Task::Waiting(mut waiting, _) => match futures_util::poll!(&mut waiting) {
                std::task::Poll::Ready(guard) => {
                    let guard = guard.unwrap();
                    let held = tasks.iter().filter(|task| match task {
                        Task::Holding(guard, _) => !guard.is_lost(),
                        _ => false,
                    });
                    assert_eq!(held.count(), 0, "{kind} {seed}: two have it");
                    assert!(guard.token().get() > last_token, "{kind} {seed}: tokens go back");
                    last_token = guard.token().get();
                    grants[number] += 1;
                    Task::Holding(guard, now + ms(random.u64(..40)))
                }
                std::task::Poll::Pending => {
                    let asleep = if random.usize(..60) == 0 { random.u64(..3_000) } else { 0 };
                    Task::Waiting(waiting, now + ms(asleep))
                }
            },
            Task::Holding(guard, until) if until > now => Task::Holding(guard, until),
            Task::Holding(guard, _) => {
                drop(guard);
                Task::Idle
            }
        };
        if random.usize(..4) == 0 {
            sleep(ms(random.u64(1..5))).await;
        }
    }
    drop(tasks);
    for client in clients {
        let report = client.shutdown(secs(2)).await;
        assert!(report.is_clean(), "{kind} {seed}: {report:?}");
    }
}
