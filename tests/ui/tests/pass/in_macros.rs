//! Functions that a macro writes, and a runtime under another name.

mod facade {
    pub use lock_runtime as locks;
}

macro_rules! service {
    ($name:ident, $argument:ident, $wait:literal, $prefix:literal) => {
        #[facade::locks::distributed_lock(key = "in:{id}", wait = $wait, guard = hold, crate = $crate::in_macros::facade::locks)]
        async fn $name(id: u64, $argument: u64) -> Result<String, facade::locks::LockError> {
            Ok(format!("{} {} {}", hold.key(), id, $argument))
        }

        pub mod $argument {
            #[lock_runtime::distributed_lock(key($prefix, $argument), guard = hold)]
            pub async fn by($argument: u64) -> Result<String, lock_runtime::LockError> {
                Ok(hold.key().to_string())
            }
        }
    };
}

service!(pay, amount, "1s", "amount:{}");

#[facade::locks::distributed_lock(key = "{id}", client = client, crate = crate::in_macros::facade::locks)]
async fn renamed(
    id: u8,
    client: facade::locks::LockClient,
) -> Result<u8, facade::locks::LockError> {
    drop(client);
    Ok(id)
}

#[tokio::test]
async fn runs() -> Result<(), facade::locks::LockError> {
    let client = facade::locks::LockClient::in_memory();
    client
        .scope(async {
            assert_eq!(pay(1, 2).await?, "in:1 1 2");
            assert_eq!(amount::by(5).await?, "amount:5");
            assert_eq!(renamed(3, client.clone()).await?, 3);
            Ok(())
        })
        .await
}
