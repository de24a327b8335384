//! What Redis sees: keys, fields, expiry, channels (S-2, S-4, S-14, S-19, S-23, S-25).

use crate::prelude::*;

// Redisson's hash while held, nothing but the fencing counter afterwards, and its message.
test_with!(a_hold_has_redissons_layout, world(), async |(server, client)| {
    let raw = server.client();
    let log = server.subscribe_log("redisson_lock__channel:{wire:1}").await;
    let lease = secs(20);
    let options = watched(lease);
    let guard = client.mutex("wire:1").with(options).lock().await.unwrap();

    let hash = raw.hgetall("wire:1").await;
    let (owner, count) = hash.first_key_value().expect("no hash");
    let (uuid, hold) = owner.split_once(':').expect("no uuid:n");
    assert_eq!((hash.len(), count.as_str(), hold), (1, "1", "1"), "{hash:?}");
    let groups: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12], "{uuid}");
    assert_eq!(&uuid[14..15], "4", "not a random uuid: {uuid}");
    let backwards: String = uuid[..8].chars().rev().collect();
    assert_eq!(uuid[28..], backwards, "not known as ours (S-32)");
    let pttl = left(raw.pttl("wire:1").await);
    assert!(pttl <= lease && pttl > lease / 2, "{pttl:?}");

    guard
        .run(async {
            client.mutex("wire:1").lock().await.unwrap().release().await.unwrap();
        })
        .await
        .unwrap();

    assert_eq!(log.payloads(), [""; 0], "a nested release published");
    let token = guard.token();
    guard.release().await.unwrap();
    assert_eq!(log.wait_for(1, SOON).await, ["0"]);
    assert_eq!(raw.keys().await, ["redisson_lock_token:{wire:1}"]);
    let counter: String = raw.get(&["GET", "redisson_lock_token:{wire:1}"]).await;
    assert_eq!(counter, token.to_string());
    let day = secs(24 * 60 * 60);
    let expiry = left(raw.pttl("redisson_lock_token:{wire:1}").await);
    assert!(expiry <= day && expiry > day - secs(60), "{expiry:?}");
});

// S-2: a name that carries its own hash tag keeps it.
test_with!(a_hash_tag_in_the_name_is_kept, world(), async |(server, client)| {
    let guard = client.mutex("order:{42}").lock().await.unwrap();
    let mut keys = server.client().keys().await;
    keys.sort();
    assert_eq!(keys, ["order:{42}", "redisson_lock_token:order:{42}"]);
    guard.release().await.unwrap();
});

// The system probes a silent connection, so that routers remember it and its end is noticed.
#[cfg(target_os = "linux")]
test_with!(a_silent_connection_is_kept_alive, world(), async |(server, _client)| {
    let rows = || std::fs::read_to_string("/proc/net/tcp").unwrap();
    // The side channel uses a unix socket, so the only connection to this port is the client's.
    let port = format!(":{:04X}", server.port());
    let probe_in = |row: &str| {
        let fields: Vec<_> = row.split_whitespace().collect();
        let (remote, state, timer) = (fields.get(2)?, fields.get(3)?, fields.get(5)?);
        let established = remote.ends_with(&port) && *state == "01";
        // Timer 2 is keepalive; its time is in hundredths of a second.
        let ticks = timer.strip_prefix("02:").filter(|_| established)?;
        u64::from_str_radix(ticks, 16).ok().map(|ticks| ms(ticks * 10))
    };
    soon!("a probe is planned", {
        let planned = rows().lines().find_map(probe_in);
        planned.is_some_and(|after| after <= secs(30))
    });
});
