//! A witness records what its task did, and no more.

use lock_tests::crew::connect_to_values;
use lock_tests::history::{History, Op, Recorder, Rules, Share};
use lock_tests::witness::Witness;

use super::BOUND;
use crate::prelude::*;

/// A client library does not send a request whose caller has gone, so a value may then be as it was before.
#[tokio::test]
async fn an_update_that_is_cancelled_may_be_none() {
    let (server, client) = (RedisServer::start().await, LockClient::in_memory());
    let dir = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::create(dir.path()).unwrap());
    let mut values = connect_to_values(&server.url()).await.unwrap();
    let witness = Witness::new(&recorder, 1, "witnessed", Share::Exclusive);
    let updates = || {
        let history = History::load(dir.path()).unwrap();
        history.events().iter().filter(|it| matches!(it.op, Op::Updated { .. })).count()
    };
    server.client().cmd(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
    let mut held = witness.acquire(client.mutex("witnessed").lock()).await.unwrap();
    tokio::select! {
        () = held.update(&mut values, Duration::ZERO) => panic!("the server writes nothing"),
        () = eventually(BOUND, "the update begins", async || updates() == 1) => {}
    }
    held.release().await.unwrap();
    server.client().cmd(&["CLIENT", "UNPAUSE"]).await;
    server.client().cmd(&["DEL", "value of witnessed"]).await;
    let mut held = witness.acquire(client.mutex("witnessed").lock()).await.unwrap();
    held.update(&mut values, Duration::ZERO).await;
    held.release().await.unwrap();
    let history = History::load(dir.path()).unwrap();
    let ops = history.events().iter().map(|event| &event.op);
    let read: Vec<_> = ops.filter(|op| matches!(op, Op::Updated { .. })).collect();
    assert_eq!(read, [&Op::Updated { from: 0, to: 1 }; 2]);
    assert_eq!(history.check(&Rules::default()).violations, []);
}
