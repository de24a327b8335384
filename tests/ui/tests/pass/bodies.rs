//! Whatever is in a body stays what it is: labels, items, `?`, closures, loops, other functions.

use std::fmt::Debug;
use std::num::ParseIntError;

use lock_runtime::{LockClient, LockError, distributed_lock};

#[allow(dead_code)]
#[derive(Debug)]
enum Failure {
    Lock(LockError),
    Number(ParseIntError),
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

#[distributed_lock(key = "b")]
async fn everything(text: &str) -> Result<u64, Failure> {
    const LIMIT: u64 = 10;
    struct Inside;
    impl Inside {
        const STEP: u64 = 2;
    }
    fn double(x: u64) -> u64 {
        x * Inside::STEP
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
            sum += double(round);
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
async fn no_value(values: &mut Vec<u64>) -> Result<(), Failure> {
    let Some(last) = values.pop() else { return Ok(()) };
    while let Some(next) = values.pop() {
        if next == last {
            return Err(Failure::Lock(LockError::Closed));
        }
    }
    Ok(())
}

#[distributed_lock(key = "b")]
async fn one_expression() -> Result<u64, Failure> {
    match "7".parse() {
        Ok(x) => Ok(x),
        Err(e) => Err(Failure::Number(e)),
    }
}

#[distributed_lock(key = "outer")]
async fn inside_of_a_function(id: u64) -> Result<u64, Failure> {
    #[distributed_lock(key = "inner:{id}", guard = hold)]
    async fn inner(id: u64) -> Result<u64, LockError> {
        Ok(id + 0 * hold.token().get())
    }
    struct Local(u64);
    impl Local {
        #[distributed_lock(key = "local:{self.0}")]
        async fn value(&self) -> Result<u64, LockError> {
            Ok(self.0)
        }
    }
    Ok(inner(id).await? + Local(1).value().await?)
}

#[distributed_lock(key = "b")]
async fn never_ends() -> Result<std::convert::Infallible, LockError> {
    loop {
        std::future::pending::<()>().await;
    }
}

#[distributed_lock(key = "b")]
async fn closures(
    call: impl AsyncFn(u64) -> u64,
    then: &mut dyn FnMut(u64),
) -> Result<(), LockError> {
    then(call(3).await);
    Ok(())
}

#[distributed_lock(key = "b")]
async fn shows<T>(value: T) -> Result<T, LockError>
where
    T: Debug + Clone,
{
    Ok(Clone::clone(&value))
}

#[tokio::test]
async fn runs() -> Result<(), Failure> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(everything("5").await?, 6);
            assert!(matches!(everything("x").await, Err(Failure::Number(_))));
            assert!(matches!(everything("100").await, Err(Failure::Lock(LockError::Closed))));
            assert!(no_value(&mut vec![1, 2, 3]).await.is_ok());
            assert!(no_value(&mut vec![3, 2, 3]).await.is_err());
            assert_eq!(one_expression().await?, 7);
            assert_eq!(inside_of_a_function(5).await?, 6);
            let forever =
                tokio::time::timeout(std::time::Duration::from_millis(1), never_ends()).await;
            assert!(forever.is_err());
            let mut seen = 0;
            closures(async |x| x + 1, &mut |x| seen = x).await?;
            assert_eq!(seen, 4);
            assert_eq!(shows("x").await?, "x");
            Ok(())
        })
        .await
}
