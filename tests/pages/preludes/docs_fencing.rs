use lock_runtime::LockError;

#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error("a later holder has written")]
    Stale,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Token(#[from] std::num::TryFromIntError),
}

async fn stamp_and_read(id: u64, token: i64) -> Result<Option<i64>, AppError> {
    panic!()
}

async fn write(id: u64, cents: i64, token: i64) -> Result<u64, AppError> {
    panic!()
}
