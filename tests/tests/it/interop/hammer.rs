//! Tasks of ours and threads of Java's count up one number, in steps that only the lock makes one.

use crate::interop::java::Redisson;
use crate::interop::world::*;

const TIME: Duration = secs(10);
const TASKS: u64 = 3;

/// S-14: no step is lost, nobody is inside with anybody else, and both sides have their turns.
async fn hammer(kind: &'static str, redisson: Redisson) {
    let mut world = World::with(redisson).await;
    let raw = world.server.client();
    raw.cmd(&["SET", "hammer:sum", "0"]).await;
    if kind == "permits" {
        world.java.ask("t", "set permit a,b 1").await;
    }
    // With its defaults, as Java has.
    let client = LockClient::connect(&world.server.url()).await.unwrap();
    let java = world.java.begin("t", &format!("hammer {kind} a,b {TASKS} {}", TIME.as_millis()));
    let until = Instant::now() + TIME;
    let tasks = (0..TASKS).map(|_| {
        let (client, raw) = (client.clone(), raw.clone());
        lock_tests::spawn(async move {
            let mut counted = 0;
            while Instant::now() < until {
                let guard = take(&client, kind).await.unwrap();
                count(&raw).await;
                guard.release().await.unwrap();
                counted += 1;
            }
            counted
        })
    });
    let ours: u64 = joined(tasks).await.into_iter().sum();
    let theirs: u64 = world.java.end(java, TIME + SOON).await.parse().unwrap();
    println!("{kind}: Rust {ours}, Java {theirs} in {TIME:?}");
    assert_eq!(raw.get::<Option<u64>>(&["GET", "hammer:overlaps"]).await, None, "overlaps");
    assert_eq!(raw.get::<u64>(&["GET", "hammer:sum"]).await, ours + theirs);
    assert!(ours > 20 && theirs > 20, "one side starved: Rust {ours}, Java {theirs}");
}

async fn take(client: &LockClient, kind: &str) -> Result<LockGuard, LockError> {
    match kind {
        "mutex" | "fenced" => client.mutex("a,b").lock().await,
        "fair" => client.fair_mutex("a,b").lock().await,
        "write" => client.rw_lock("a,b").write().await,
        "multi" => client.multi_lock(["a", "b"]).lock().await,
        "permits" => client.semaphore("a,b", 1).acquire().await,
        _ => panic!("there is no kind {kind}"),
    }
}

/// One step of four commands, as `Hammer.java` does it.
async fn count(raw: &RawClient) {
    if raw.get::<u64>(&["INCR", "hammer:inside"]).await != 1 {
        raw.cmd(&["INCR", "hammer:overlaps"]).await;
    }
    let seen: u64 = raw.get(&["GET", "hammer:sum"]).await;
    raw.cmd(&["SET", "hammer:sum", &(seen + 1).to_string()]).await;
    raw.cmd(&["DECR", "hammer:inside"]).await;
}

/// A test for each kind, which runs it with Redisson's defaults.
macro_rules! hammered {
    ($($test:ident: $kind:literal,)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "needs a JDK and Maven: cargo xtask interop"]
        async fn $test() {
            hammer($kind, Redisson::default()).await;
        }
    )* };
}

hammered! {
    a_mutex: "mutex",
    a_fenced_lock: "fenced",
    a_fair_lock: "fair",
    a_write_lock: "write",
    a_multi_lock: "multi",
    the_only_permit: "permits",
}
