//! Fault 8: code panics while it holds a lock, in a task, and in a thread that belongs to no runtime.
//!
//! - Promised: the guard, which the panic drops, releases the lock at once, without blocking.
//! - Seen: each lock free for others within 0.1 s, with a lease of 40 s.

use crate::prelude::*;

drill!(every_lock_is_released, async |drill| {
    for guard in hold_each(&drill.far.client, SOON * 2).await {
        let task = tokio::spawn(async move {
            let _guard = guard;
            panic!("a bug of the program");
        });
        assert!(task.await.unwrap_err().is_panic());
    }
    soon_free(&drill.near.client).await;
    for guard in hold_each(&drill.far.client, SOON * 2).await {
        let thread = std::thread::spawn(move || {
            let _guard = guard;
            panic!("a bug of the program");
        });
        assert!(tokio::task::spawn_blocking(|| thread.join()).await.unwrap().is_err());
    }
    soon_free(&drill.near.client).await;
});
