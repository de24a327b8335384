//! Generics, receivers and bodies of every form: they stay what they are.

#![allow(async_fn_in_trait)]

use std::fmt::{Debug, Display};
use std::num::ParseIntError;
use std::rc::Rc;
use std::sync::Arc;

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
async fn nested(id: u8) -> Result<Vec<(u8, impl IntoIterator<Item = impl Debug>)>, LockError> {
    Ok(vec![(id, (0..id).map(Some))])
}

#[distributed_lock(key = "s")]
async fn boxed(call: Box<dyn Fn(u8) -> u8 + '_>) -> Result<Box<dyn Display>, LockError> {
    Ok(Box::new(call(1)))
}

#[distributed_lock(key = "s")]
async fn closures(
    call: impl AsyncFn(u64) -> u64,
    then: &mut dyn FnMut(u64),
) -> Result<(), LockError> {
    then(call(3).await);
    Ok(())
}

struct Counter {
    count: u64,
}

impl Counter {
    #[distributed_lock(key = "c:{self.count}")]
    async fn shared(self: Arc<Self>) -> Result<u64, LockError> {
        Ok(self.count)
    }

    #[distributed_lock(key = "c:{self.count}")]
    async fn local(self: &Rc<Self>) -> Result<u64, LockError> {
        Ok(self.count)
    }
}

trait Till {
    fn number(&self) -> u64;

    #[distributed_lock(key = "till:{self.number()}", guard = hold)]
    async fn close(&self) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }
}

impl Till for Counter {
    fn number(&self) -> u64 {
        self.count
    }
}

#[derive(Debug)]
enum Failure {
    Lock(LockError),
    Number(#[expect(dead_code, reason = "as in a user's program")] ParseIntError),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<ParseIntError> for Failure {
    fn from(error: ParseIntError) -> Self {
        Self::Number(error)
    }
}

/// Labels, items, `?`, closures, loops, and annotated functions inside.
#[distributed_lock(key = "b")]
async fn everything(text: &str) -> Result<u64, Failure> {
    const LIMIT: u64 = 10;
    struct Local(u64);
    impl Local {
        #[distributed_lock(key = "local:{self.0}", guard = hold)]
        async fn double(&self) -> Result<u64, LockError> {
            Ok(self.0 * 2 + 0 * hold.token().get())
        }
    }
    let number: u64 = text.parse()?;
    let small = 'found: {
        if number > LIMIT {
            break 'found false;
        }
        true
    };
    let mut sum = 0;
    'outer: for round in 0.. {
        loop {
            sum += Local(round).double().await?;
            if sum > number {
                break 'outer;
            }
            if round % 2 == 0 {
                continue 'outer;
            }
            break;
        }
    }
    let check = |limit: u64| -> Result<u64, Failure> {
        if limit > 5 { Ok(limit) } else { "x".parse::<u64>().map_err(Failure::from) }
    };
    let later = async { Ok::<_, Failure>(check(sum)?) };
    if small {
        return later.await;
    }
    Err(LockError::Closed)?
}

#[distributed_lock(key = "b")]
async fn never_ends() -> Result<std::convert::Infallible, LockError> {
    loop {
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn runs() -> Result<(), Failure> {
    LockClient::in_memory()
        .scope(async {
            let items = ["a".to_owned(), "b".to_owned()];
            let store = Store { items: &items };
            assert_eq!(store.get(1).await?, "b");
            assert_eq!(store.with("k", ["c".to_owned()]).await?.concat(), "abc");
            assert_eq!(longest("x", "long", "no").await?, "long");
            assert_eq!(elided(" x ").await?, "x");
            let (two, rest) = nested(2).await?.pop().expect("one");
            let rest: Vec<_> = rest.into_iter().collect();
            assert_eq!(format!("{two} {rest:?}"), "2 [Some(0), Some(1)]");
            assert_eq!(boxed(Box::new(|x| x + 1)).await?.to_string(), "2");
            let mut seen = 0;
            closures(async |x| x + 1, &mut |x| seen = x).await?;
            assert_eq!(seen, 4);

            assert_eq!(Counter { count: 4 }.close().await?, "till:4");
            assert_eq!(Rc::new(Counter { count: 9 }).local().await?, 9);
            assert_eq!(Arc::new(Counter { count: 5 }).shared().await?, 5);

            assert_eq!(everything("5").await?, 6);
            assert!(matches!(everything("x").await, Err(Failure::Number(_))));
            assert!(matches!(everything("100").await, Err(Failure::Lock(LockError::Closed))));
            let brief = std::time::Duration::from_millis(1);
            assert!(tokio::time::timeout(brief, never_ends()).await.is_err());
            Ok(())
        })
        .await
}
