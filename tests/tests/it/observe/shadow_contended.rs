//! Shadow mode (`enforce`) beside a local task that asks a store which does not answer: nothing says that the
//! lock is busy (S-33).

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;
use crate::observe::shadow::{connect, counted, job};

#[tokio::test]
async fn a_look_beside_a_contender_is_unanswered() {
    let seen = Kept::default();
    let _here = metrics::set_default_local_recorder(&seen);
    let server = RedisServer::start().await;
    let client = connect(&server.url()).await;
    assert!(job(&client, 1).await.unwrap());
    server.pause();
    let mutex = client.mutex("job:1");
    let contender = lock_tests::spawn(async move { mutex.lock().await.map(drop) });
    sleep(ms(5)).await;
    assert!(!job(&client, 1).await.unwrap());
    assert_eq!(counted(&seen, "not_enforced"), 0, "{}", seen.text());
    assert_eq!(counted(&seen, "unanswered"), 1, "{}", seen.text());
    server.resume();
    contender.await.unwrap().unwrap();
    assert!(client.shutdown(SOON).await.is_clean());
}
