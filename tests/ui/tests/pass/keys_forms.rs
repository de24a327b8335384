//! `keys`: all of them or none, as a list or as anything that can be turned into keys.

use lock_runtime::{LockClient, LockError, LockKey, distributed_lock};

struct Account {
    id: u64,
}

fn key_of(account: &Account) -> Result<LockKey, LockError> {
    LockKey::builder().text("acct:").part(&account.id).build()
}

#[distributed_lock(keys = ["acct:{from.id}", "acct:{to.id}"], guard = hold, wait = none)]
async fn templates(from: &Account, to: Account) -> Result<u64, LockError> {
    drop(to);
    Ok(hold.token().get())
}

#[distributed_lock(
    keys = ["acct:{id}", key("acct:{}", id + 1), format!("acct:{}", id + 2), ALL, key_of(other)],
    wait = none,
)]
async fn mixed(id: u64, other: &Account) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = accounts.iter().map(key_of), wait = none)]
async fn computed(accounts: Vec<Account>) -> Result<usize, LockError> {
    Ok(accounts.into_iter().count())
}

#[distributed_lock(keys = names, wait = none)]
async fn whole(names: [&str; 2]) -> Result<usize, LockError> {
    Ok(names.len())
}

#[distributed_lock(keys = ["acct:{id}"], wait = none)]
async fn one(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["acct:1", "acct:3"], kind = write, wait = none)]
async fn of_a_kind() -> Result<(), LockError> {
    Ok(())
}

const ALL: &str = "all";

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            let account = |id| Account { id };
            assert!(templates(&account(1), account(2)).await? > 0);
            // The same lock twice is one lock.
            assert!(templates(&account(1), account(1)).await? > 0);
            assert_eq!(mixed(1, &account(9)).await?, 1);
            assert_eq!(computed(vec![account(1), account(2)]).await?, 2);
            assert_eq!(whole(["acct:1", "acct:2"]).await?, 2);
            assert_eq!(one(1).await?, 1);
            of_a_kind().await?;
            assert!(computed(vec![]).await.is_err());

            for (name, is_in) in [
                ("acct:1", [true, true, true, true, true, true]),
                ("acct:2", [true, true, true, true, false, false]),
                ("acct:3", [false, true, false, false, false, true]),
                ("all", [false, true, false, false, false, false]),
                ("acct:9", [false, true, false, false, false, false]),
            ] {
                let held = client.mutex(name).lock().await?;
                let busy =
                    |refused: Option<LockError>| refused.is_some_and(|error| error.is_busy());
                let found = [
                    busy(templates(&account(1), account(2)).await.err()),
                    busy(mixed(1, &account(9)).await.err()),
                    busy(computed(vec![account(1), account(2)]).await.err()),
                    busy(whole(["acct:1", "acct:2"]).await.err()),
                    busy(one(1).await.err()),
                    of_a_kind().await.is_err(),
                ];
                assert_eq!(found, is_in, "{name}");
                held.release().await?;
            }
            Ok(())
        })
        .await
}
