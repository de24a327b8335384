#[derive(Debug)]
struct PayError;

impl std::fmt::Display for PayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the payment failed")
    }
}

impl std::error::Error for PayError {}

impl From<lock_runtime::LockError> for PayError {
    fn from(_: lock_runtime::LockError) -> Self {
        Self
    }
}

async fn pay() -> Result<(), PayError> {
    Ok(())
}

async fn report() {}
