//! How soon every lock is free again after a planned failover.

use super::world::{FAILOVER, NAME, World, builder};
use crate::prelude::*;

/// Names of each kind.
const NAMES: usize = 3;

/// From when the new master accepts writes; the old one grants locks until the sentinels name the new one.
const BOUND: Duration = secs(1);

/// Uses a lock until it is stopped, and tells when it got it.
async fn uses(
    client: LockClient,
    kind: &'static str,
    name: String,
    stop: Arc<AtomicBool>,
) -> Vec<Instant> {
    let mut granted = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let guard = take(&client, kind, &name, waits(FAILOVER)).await.unwrap();
        granted.push(Instant::now());
        sleep(ms(2)).await;
        match guard.release().await {
            // What the old master granted last may be lost.
            Ok(()) | Err(LockError::Lost { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    granted
}

// S-19: what the old master released after its replica was promoted, the new master does not know of. Two processes use each
// lock all the while, so most are released in that time; none stays held until its lease ends, nor a fair lock's place
// until it counts as dead.
test_with!(every_name_is_free_soon, World::new(1), async |world| {
    fails_over(&world, BOUND).await;
});

// S-19: a new master that wants replicas refuses these releases, too, until it has one. The old one wants none: it goes on
// granting and releasing once its replica is promoted.
test_with!(
    every_name_is_free_soon_after_the_master_has_its_replica,
    World::new(1),
    async |world| {
        world.servers[1].client().cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
        // They are asked for again once a second.
        fails_over(&world, BOUND + secs(1)).await;
    }
);

async fn fails_over(world: &World, bound: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let client = world.client_of(builder()).await;
        for n in 0..NAMES * KINDS.len() {
            let (kind, _) = KINDS[n % KINDS.len()];
            for _ in 0..2 {
                let name = format!("{kind}:{}", n / KINDS.len());
                let task = uses(client.clone(), kind, name.clone(), Arc::clone(&stop));
                tasks.push((name, lock_tests::spawn(task)));
            }
        }
    }
    sleep(ms(300)).await;
    world.sentinels.client(0).cmd(&["SENTINEL", "FAILOVER", NAME]).await;
    let promoted = world.promoted().await;
    let writes = async || promoted.client().try_cmd(&["DEL", "none"]).await.is_ok();
    eventually(FAILOVER, "the new master accepts writes", writes).await;
    let writable = Instant::now();
    sleep(bound + secs(4)).await;
    stop.store(true, Ordering::SeqCst);
    let mut granted = BTreeMap::<String, Vec<Instant>>::new();
    for (name, task) in tasks {
        granted.entry(name).or_default().extend(timeout(6 * SOON, task).await.unwrap().unwrap());
    }
    // On a busy machine the notice of a release may get lost in the fail-over. The waiter's next sign of life then finds the lock
    // free: a third of its place's five seconds later.
    let most = patience(bound).min(bound + secs(5) / 3);
    for (name, mut times) in granted {
        times.sort();
        // From the last grant of the old master, or of the new one before a stop, to the next.
        let later = times.partition_point(|time| *time < writable);
        let pairs = times[later.saturating_sub(1)..].windows(2);
        let longest = pairs.map(|pair| pair[1] - pair[0].max(writable)).max().unwrap_or(secs(99));
        assert!(
            longest < most,
            "{name} was free only {longest:?} after the new master accepted writes"
        );
    }
}
