//! Several processes, which are stopped and killed, judged by their histories.

mod fair;
mod many_tasks;
mod semaphore;
