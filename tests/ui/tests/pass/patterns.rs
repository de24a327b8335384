//! Arguments taken apart by patterns: what the pattern binds can be used in the key.

use lock_runtime::{LockClient, LockError, distributed_lock};

struct Path<T>(T);

struct Transfer {
    from: u64,
    to: u64,
}

#[distributed_lock(key = "{id}", guard = hold)]
async fn tuple_struct(Path(id): Path<u64>) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "{a}:{c}", guard = hold)]
async fn tuple((a, (_, c)): (u8, (u8, u8))) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "{from}:{target}", guard = hold)]
async fn fields(Transfer { from, to: target }: Transfer) -> Result<String, LockError> {
    Ok(format!("{} {from} {target}", hold.key()))
}

#[distributed_lock(key = "{whole.from}:{first}", guard = hold)]
async fn bound(
    whole @ Transfer { .. }: &Transfer,
    [first, ..]: [u8; 3],
    _: u8,
    _ignored: u8,
) -> Result<String, LockError> {
    Ok(format!("{} {}", hold.key(), whole.to))
}

#[distributed_lock(key = "{name}", guard = hold)]
async fn mutable(mut name: String, &count: &usize) -> Result<String, LockError> {
    name.push_str(&"!".repeat(count));
    Ok(format!("{} {name}", hold.key()))
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(tuple_struct(Path(1)).await?, "1");
            assert_eq!(tuple((1, (2, 3))).await?, "1:3");
            assert_eq!(fields(Transfer { from: 1, to: 2 }).await?, "1:2 1 2");
            assert_eq!(bound(&Transfer { from: 1, to: 2 }, [7, 8, 9], 0, 0).await?, "1:7 2");
            assert_eq!(mutable("x".into(), &2).await?, "x x!!");
            Ok(())
        })
        .await
}
