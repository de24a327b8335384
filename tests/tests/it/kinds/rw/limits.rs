//! How many readers may wait, where some share a hold and others have one each (S-18, S-27).

use crate::kinds::rw::*;

/// How many tasks may wait in one client: fewer than wait in all rounds together.
const MOST: usize = 4;

/// Long enough on a paused clock for every task to act. All of one round is over before a waiter's sign of
/// life, which would count it anew.
const A_LITTLE: Duration = ms(20);

/// Three readers that have a hold each, because a fixed lease is not shared.
async fn readers_apart(client: &LockClient) -> Vec<Waiter> {
    let lock = client.rw_lock("r").with(fixed(PROMPTLY));
    let readers = (0..3).map(|_| lock_tests::spawn(lock.read())).collect();
    sleep(A_LITTLE).await;
    readers
}

/// The gate of the readers that share is left while others wait beside it: these are still counted, and leave the count when
/// they are done. Where a second sharing reader contends when the others leave, the count of those that wait never falls below
/// zero, which would be more than any limit.
#[tokio::test(start_paused = true)]
async fn readers_beside_a_sharing_one_leave_the_count() {
    for second_shares in [false, true] {
        let store = MemoryStore::new();
        let client = LockClient::builder().max_waiters(MOST).store(store.peer()).unwrap();
        let other = LockClient::builder().store(store).unwrap();
        for _ in 0..5 {
            let writer = other.rw_lock("r").write().await.unwrap();
            let mut readers = readers_apart(&client).await;
            // A reader that would share its hold gives up.
            let error = client.rw_lock("r").with(waits(A_LITTLE)).read().await.unwrap_err();
            assert!(error.is_timeout(), "{error:?}");
            // What it may have left in the store is given back, and its seat with it.
            sleep(A_LITTLE).await;
            if second_shares {
                let second = lock_tests::spawn(client.rw_lock("r").read());
                sleep(A_LITTLE).await;
                for reader in readers {
                    reader.abort();
                    assert!(reader.await.unwrap_err().is_cancelled(), "the count went wrong");
                }
                sleep(A_LITTLE).await;
                // Who comes now finds room beside the one that contends.
                readers = readers_apart(&client).await;
                assert!(readers.iter().all(|reader| !reader.is_finished()), "refused");
                readers.push(second);
            }
            writer.release().await.unwrap();
            release_all(all_got(readers, PROMPTLY).await).await;
        }
    }
}
