//! Callers that do not wait, beside others that come and go: two round trips, and no more.

use crate::faults::slow_store::*;

/// Of the network, both ways together.
const ROUND_TRIP: Duration = ms(200);

/// For a busy machine.
const SLACK: Duration = ms(150);

const SIXTEEN: u32 = 16;

async fn attempt(client: &LockClient, kind: &str) -> Result<Option<LockGuard>, LockError> {
    match kind {
        "semaphore" => {
            let permit = client.semaphore(kind, SIXTEEN).try_acquire().await?;
            Ok(permit)
        }
        "read" => client.rw_lock(kind).try_read().await,
        "fair" => client.fair_mutex(kind).try_lock().await,
        _ => panic!("{kind} is no such kind"),
    }
}

async fn take(client: &LockClient, kind: &str) -> LockGuard {
    match kind {
        "semaphore" => client.semaphore(kind, SIXTEEN).acquire().await.unwrap(),
        "read" => client.rw_lock(kind).read().await.unwrap(),
        _ => client.fair_mutex(kind).lock().await.unwrap(),
    }
}

/// How long each of some tries takes beside eight tasks that take and drop.
async fn beside_eight(kind: &'static str) -> Vec<Duration> {
    let (_server, proxy, client) = far_world_with(ms(1_000)).await;
    drop(take(&client, kind).await);
    proxy.delay(ROUND_TRIP / 2);
    let (over, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let (client, over, taken) = (client.clone(), Arc::clone(&over), Arc::clone(&taken));
            lock_tests::spawn(async move {
                // Out of step, so that some release of the key is always under way.
                sleep(ROUND_TRIP / 8 * number).await;
                while !over.load(Ordering::SeqCst) {
                    let guard = take(&client, kind).await;
                    taken.fetch_add(1, Ordering::SeqCst);
                    sleep(ms(3)).await;
                    drop(guard);
                }
            })
        })
        .collect();
    // A fair lock has one of them after the other.
    let most = if kind == "fair" { 3 } else { 8 };
    let started = async || taken.load(Ordering::SeqCst) >= most;
    eventually(SOON, "they come and go", started).await;
    let mut took = Vec::new();
    for _ in 0..8 {
        let start = Instant::now();
        let tried = attempt(&client, kind).await;
        took.push(start.elapsed());
        // A fair lock has others in line.
        assert!(tried.unwrap().is_some() || kind == "fair", "a {kind} was refused");
    }
    over.store(true, Ordering::SeqCst);
    joined(tasks).await;
    took
}

/// S-15: a caller that does not wait, waits for the releases of the same key that came before it, and
/// not for those of others that come and go meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_waits_only_for_earlier_releases() {
    let all = ["semaphore", "read", "fair"];
    let (permit, read, fair) =
        tokio::join!(beside_eight(all[0]), beside_eight(all[1]), beside_eight(all[2]));
    let bound = ROUND_TRIP * 2 + SLACK;
    for (kind, mut took) in all.into_iter().zip([permit, read, fair]) {
        // The slowest two of eight are this machine's.
        took.sort();
        assert!(took[5] < bound, "{kind}: {took:?}");
    }
}
