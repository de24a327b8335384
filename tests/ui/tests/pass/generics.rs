//! Generics, lifetimes and `impl Trait`, in arguments and in the return type.

use std::fmt::{Debug, Display};

use lock_runtime::{KeyPart, LockClient, LockError, distributed_lock};

struct Store<'a, T> {
    items: &'a [T],
}

impl<'a, T: Clone + Send + Sync> Store<'a, T> {
    #[distributed_lock(key = "store:{at}", guard = hold)]
    async fn get(&self, at: usize) -> Result<&'a T, LockError> {
        assert_eq!(hold.key().as_str(), format!("store:{at}"));
        Ok(&self.items[at])
    }

    #[distributed_lock(key = "store:{key}")]
    async fn with<K, const N: usize>(&self, key: K, more: [T; N]) -> Result<Vec<T>, LockError>
    where
        K: KeyPart + Send,
    {
        drop(key);
        Ok(self.items.iter().chain(&more).cloned().collect())
    }
}

#[distributed_lock(key = "s:{id}")]
async fn longest<'a>(id: &str, a: &'a str, b: &'a str) -> Result<&'a str, LockError> {
    Ok(if a.len() > b.len() { a } else { b })
}

#[distributed_lock(key = "s:{text}")]
async fn elided(text: &str) -> Result<&str, LockError> {
    Ok(text.trim())
}

#[distributed_lock(key = "s:{id}")]
async fn hidden(id: impl KeyPart + Display) -> Result<impl Debug, LockError> {
    Ok(vec![id.to_string()])
}

#[distributed_lock(key = "s:{id}")]
async fn nested(id: u8) -> Result<Vec<(u8, impl IntoIterator<Item = impl Debug>)>, LockError> {
    Ok(vec![(id, (0..id).map(Some))])
}

#[distributed_lock(key = "s")]
async fn boxed(call: Box<dyn Fn(u8) -> u8 + '_>) -> Result<Box<dyn Display>, LockError> {
    Ok(Box::new(call(1)))
}

#[distributed_lock(key = "s")]
async fn called<F: AsyncFnOnce() -> u8>(call: F) -> Result<u8, LockError> {
    Ok(call().await)
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let items = ["a".to_owned(), "b".to_owned()];
            let store = Store { items: &items };
            assert_eq!(store.get(1).await?, "b");
            assert_eq!(store.with("k", ["c".to_owned()]).await?.concat(), "abc");
            assert_eq!(longest("x", "long", "no").await?, "long");
            assert_eq!(elided(" x ").await?, "x");
            assert_eq!(format!("{:?}", hidden(7_u32).await?), r#"["7"]"#);
            let (two, rest) = nested(2).await?.pop().expect("one");
            assert_eq!(
                format!("{two} {:?}", rest.into_iter().collect::<Vec<_>>()),
                "2 [Some(0), Some(1)]"
            );
            assert_eq!(boxed(Box::new(|x| x + 1)).await?.to_string(), "2");
            assert_eq!(called(async || 5).await?, 5);
            Ok(())
        })
        .await
}
