//! What the server pays for a write that many readers wait for (S-27).

use crate::kinds::rw::*;

/// Waiting readers, as processes that have stopped: they hear nothing and ask for nothing.
const ENTER: &str = "
    local time = redis.call('TIME')
    local ends = time[1] * 1000 + math.floor(time[2] / 1000) + 60000
    for n = 1, ARGV[1] do
      redis.call('ZADD', KEYS[1], string.format('%.0f', ends + n % 1000), 'silent:' .. n)
    end
    redis.call('PEXPIRE', KEYS[1], 61000)";

async fn enter_readers(server: &RedisServer, name: &str, readers: u32) {
    let place = format!("redisson_rwlock_readers:{{{name}}}");
    server.client().cmd(&["EVAL", ENTER, "1", &place, &readers.to_string()]).await;
}

/// The server's time for the only script since the last reset.
async fn cost_of_one_script(server: &RedisServer) -> Duration {
    let info: String = server.client().get(&["INFO", "commandstats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap();
    let value = |name: &str| -> u64 {
        let value = line.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
        value.strip_prefix('=').unwrap().parse().unwrap()
    };
    assert_eq!(value("calls"), 1, "{line}");
    Duration::from_micros(value("usec"))
}

/// The least that a grant, and the refusal of the next writer, cost the server beside so many readers.
async fn costs(readers: u32) -> (Duration, Duration) {
    let (server, client, other) = world_of_two().await;
    let mut least = (Duration::MAX, Duration::MAX);
    for round in 0..7 {
        let name = format!("w{round}");
        enter_readers(&server, &name, readers).await;
        server.reset_stats().await;
        let guard = client.rw_lock(&*name).try_write().await.unwrap().expect("no reader is due");
        least.0 = least.0.min(cost_of_one_script(&server).await);
        guard.release().await.unwrap();
        server.reset_stats().await;
        let next = other.rw_lock(&*name).try_write().await.unwrap();
        assert!(next.is_none(), "a second writer overtook {readers} readers");
        least.1 = least.1.min(cost_of_one_script(&server).await);
    }
    least
}

/// Each had its place scored anew by each grant: 14 ms for these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_costs_the_same_however_many_readers_wait() {
    let (few, many) = (costs(4).await, costs(8_000).await);
    println!("4 readers: {few:?}, 8000 readers: {many:?}");
    assert!(many.0 < few.0 * 10, "a grant takes {:?}, and {:?} beside 4 readers", many.0, few.0);
    assert!(many.1 < few.1 * 10, "a refusal takes {:?}, and {:?} beside 4 readers", many.1, few.1);
}
