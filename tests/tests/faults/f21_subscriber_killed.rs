//! Fault 21: the server cuts off all subscribers again and again (CLIENT KILL TYPE pubsub), and so notices of releases are
//! lost.
//!
//! - Promised: a notice is a hint only: after it is connected again, the client looks at every lock that it waits for; every
//!   lock within 3 s.
//! - Seen: no lock lost; every lock within 0.2 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let kill = async |drill: &mut Drill| {
        let mut killed = 0;
        for _ in 0..10 {
            let held = hold_each(&drill.near.client, SOON * 2).await;
            let client = drill.far.client.clone();
            let waiting = tokio::spawn(async move {
                let name = own_name(Job::Mutex);
                Job::Mutex.acquire(&client, &name, watched(LEASE)).await
            });
            sleep(ms(20)).await;
            killed += drill.server.client_kill(ClientType::PubSub).await;
            release_each(held).await;
            let acquired = timeout(secs(7), waiting).await.expect("the waiter has it");
            acquired.unwrap().unwrap().release().await.unwrap();
        }
        assert!(killed > 0, "nobody was subscribed");
    };
    drill.fault(May::Delay, kill).await;
    drill.end(secs(3)).await;
}
