//! What the in-memory store has that Redis has not; that both answer alike is `differential`'s.

use crate::prelude::*;

const MINUTE: Duration = secs(60);

fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

fn ask(target: &Arc<Target>, hold: u64) -> AcquireRequest {
    AcquireRequest::new(Arc::clone(target), OwnerId::new("client", hold, 1), MINUTE, MINUTE)
}

/// S-31: a client gives such a hold back and says how many had it.
#[tokio::test(start_paused = true)]
async fn a_client_undoes_what_is_not_replicated() {
    let store = MemoryStore::new();
    store.set_replicas(0);
    let client = LockClient::builder().store(store.clone()).unwrap();
    let options = LockOptions::new().replicas(Replicas::new(1, ms(50))).wait(Wait::UpTo(secs(1)));
    let refused = client.mutex("c").with(options.clone()).lock().await;
    assert!(matches!(refused, Err(LockError::NotReplicated { acked: 0, wanted: 1, .. })));
    lock_tests::eventually(MINUTE, "the hold is undone", async || store.holders("c").0.is_empty())
        .await;
    store.set_replicas(1);
    assert!(client.mutex("c").with(options).try_lock().await.unwrap().is_some());
}

/// S-30, S-32: as long as its permits are renewed, a name is a semaphore's, however many days.
#[tokio::test(start_paused = true)]
async fn renewed_permits_keep_the_name() {
    let store = MemoryStore::new();
    let semaphore = Target::semaphore(key("s"), std::num::NonZeroU32::MIN);
    let lease = secs(20 * 60 * 60);
    let mut permit = ask(&semaphore, 1);
    permit.lease = lease;
    assert!(matches!(store.acquire(permit).await.unwrap(), AcquireReply::Granted(_)));
    let owner = OwnerId::new("client", 1, 1);
    for _ in 0..3 {
        tokio::time::advance(lease - MINUTE).await;
        let renewal = RenewRequest::new(Arc::clone(&semaphore), owner.clone(), lease);
        assert_eq!(store.renew(vec![renewal], MINUTE).await.unwrap(), [Ownership::Owner]);
    }
    let error = store.acquire(ask(&Target::mutex(key("s")), 2)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::WrongType);
}

/// S-23: a counter at its end is no reason to panic.
#[tokio::test(start_paused = true)]
async fn the_highest_token_is_a_token() {
    let (store, highest) = (MemoryStore::new(), FencingToken::new(u64::MAX));
    for name in ["a", "b"] {
        store.raise_token(&Target::mutex(key(name)), highest, MINUTE).await.unwrap();
    }
    let client = LockClient::builder().store(store).unwrap();
    let one = client.mutex("a").lock().await.unwrap();
    assert_eq!(one.token(), highest);
    one.release().await.unwrap();
    let parts = [client.mutex("a").into(), MultiMember::read(&client.rw_lock("b"))];
    assert_eq!(MultiLock::of(parts).lock().await.unwrap().token(), highest);
}

/// S-23: a name that is not used any more costs no memory, and its tokens still grow: one counter stands for all such names.
#[tokio::test(start_paused = true)]
async fn names_that_are_not_used_leave_no_counters() {
    const NAMES: usize = 10_000;
    let client = LockClient::in_memory();
    let name = |number: usize| format!("job:{number}");
    let mut tokens = Vec::with_capacity(NAMES);
    for number in 0..NAMES {
        let guard = client.mutex(name(number)).lock().await.unwrap();
        tokens.push(guard.token());
        guard.release().await.unwrap();
    }
    let mut kept = 0;
    for number in 0..NAMES {
        let found = client.admin().inspect(name(number)).await.unwrap();
        kept += usize::from(found.last_token.is_some());
    }
    assert!(kept <= NAMES / 4, "{kept} counters are kept");
    for number in (0..NAMES).step_by(97) {
        let (mutex, rw) = (client.mutex(name(number)), client.rw_lock(name(number)));
        let guard = if number % 2 == 0 { mutex.lock().await } else { rw.write().await };
        let guard = guard.unwrap();
        assert!(
            guard.token() > tokens[number],
            "{number}: {} after {}",
            guard.token(),
            tokens[number]
        );
        guard.release().await.unwrap();
    }
}
