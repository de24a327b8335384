//! Tasks that are quickly compiled.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// As `tokio::spawn`, with the future in a box: the compiler then makes what a runtime does with a task once for each type of
/// result, not once for each task of the tests, where that was an eighth of all code.
#[track_caller]
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let boxed: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(boxed)
}
