use lock_runtime::LockError;

#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Fence(#[from] lock_sqlx::FenceError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}
