//! Fault 21: the server cuts off all subscribers again and again (CLIENT KILL TYPE pubsub), and so notices of releases are
//! lost.
//!
//! - Promised: a notice is a hint only: after it is connected again, the client looks at every lock that it waits for; every
//!   lock within 3 s.
//! - Seen: no lock lost; every lock within 0.2 s, by waiters that would ask by themselves only after two minutes.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let idle = Idle::start(&drill.far_config(), &**drill).await;
    idle.delete_locks(&**drill).await;
    for _ in 0..10 {
        let killed = drill.server.client_kill(ClientType::PubSub).await;
        assert!(killed > 0, "no client was subscribed");
        drill.near.work(1).await;
    }
    idle.all_acquire().await;
});
