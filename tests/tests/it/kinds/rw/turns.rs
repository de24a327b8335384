//! Readers whose answer is late, lost, or left to others (S-17, S-20, S-21, S-27, S-33).

use crate::kinds::rw::tries::{Tried, far_world, same_token, trying};
use crate::kinds::rw::*;

type Trying = Pin<Box<dyn Future<Output = Tried> + Send>>;

fn try_read(lock: &RwLock) -> Trying {
    let lock = lock.clone();
    Box::pin(async move { lock.try_read().await })
}

/// A try that the server has granted and that does not know. It goes on only when polled.
async fn asking(server: &RedisServer, lock: &RwLock) -> Trying {
    let mut asking = try_read(lock);
    assert!(poll!(&mut asking).is_pending());
    soon!("the server has granted it", !holds(server, "t").await.is_empty());
    asking
}

/// So many who come while another is asking.
async fn behind(lock: &RwLock, count: usize) -> Vec<Trying> {
    let mut behind: Vec<_> = (0..count).map(|_| try_read(lock)).collect();
    for behind in &mut behind {
        assert!(poll!(behind).is_pending());
    }
    behind
}

/// S-27: who comes while the first is asking waits for that answer and has the same hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_comes_in_between_joins() {
    let (server, proxy, client) = far_world(secs(2)).await;
    proxy.delay_replies(ms(200));
    let first = asking(&server, &client.rw_lock("t")).await;
    let asked = Instant::now();
    let mut tries = vec![lock_tests::spawn(first)];
    let waiters: Vec<_> = (0..5).map(|_| reading(&client, "t")).collect();
    tries.extend((0..20).map(|_| trying(&client, "t")));
    let mut guards = Vec::new();
    for tried in tries {
        guards.push(tried.await.unwrap().unwrap().expect("no writer holds it"));
    }
    guards.extend(all_got(waiters, PROMPTLY).await);
    same_token(&guards);
    // Its answer, and that no writer waits.
    assert!(asked.elapsed() < patience(ms(750)), "took {:?}", asked.elapsed());
    assert_eq!(holds(&server, "t").await.len(), 1);
    drop(guards);
    nothing_left(&server, "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_asker_is_replaced() {
    for dropped_too in [0, 3] {
        let (server, proxy, client) = far_world(secs(2)).await;
        let lock = client.rw_lock("t");
        proxy.delay_replies(ms(100));
        let first = asking(&server, &lock).await;
        let mut behind = behind(&lock, 10).await;
        drop(first);
        // Also those whose turn has come and who have not seen it.
        drop(behind.drain(..dropped_too));
        let tried = timeout(at_once(), join_all(behind)).await.expect("no task took over");
        let guards: Vec<_> = tried.into_iter().map(|tried| tried.unwrap().unwrap()).collect();
        same_token(&guards);
        proxy.pass();
        soon!("the first is undone", holds(&server, "t").await.len() == 1);
        drop(guards);
        nothing_left(&server, "t").await;
    }
}

/// S-33: what a name is taken by is no writer, whoever has asked, nor is a reply that was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_and_a_collision_are_no_refusals() {
    let (server, proxy, client) = far_world(ms(300)).await;
    let lock = client.rw_lock("lost");
    proxy.drop_next_reply_to("lost");
    let mut tried = join_all((0..20).map(|_| lock.try_read())).await.into_iter();
    let first = tried.next().unwrap();
    assert!(matches!(first, Err(LockError::Store(_))), "{first:?}");
    let guards: Vec<_> = tried.map(|tried| tried.unwrap().expect("no writer holds it")).collect();
    assert_eq!(proxy.replies_dropped(), 1);
    same_token(&guards);
    drop(guards);
    nothing_left(&server, "lost").await;

    server.client().cmd(&["SET", "taken", "x"]).await;
    let lock = client.rw_lock("taken");
    proxy.delay_replies(ms(100));
    let asked = Instant::now();
    for tried in join_all((0..20).map(|_| lock.try_read())).await {
        assert!(matches!(tried, Err(LockError::KeyCollision { .. })), "{tried:?}");
    }
    // No task waits for more than two answers.
    assert!(asked.elapsed() < patience(ms(900)), "took {:?}", asked.elapsed());
}

/// S-10, S-17: a hold that is only kept for a reader to join, who is not polled any more, ends with the window for that, and not
/// only with its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_for_who_stands_still() {
    let (server, proxy, _) = far_world(secs(2)).await;
    // Longer than an answer takes: readers are kept for so long.
    let client = LockClient::builder().handoff_window(ms(150)).connect(&proxy.url()).await.unwrap();
    let lock = client.rw_lock("t").with(watched(secs(3)));
    proxy.delay_replies(ms(50));
    let first = asking(&server, &lock).await;
    let mut behind = behind(&lock, 1).await;
    first.await.unwrap().expect("no writer holds it").release().await.unwrap();
    assert_eq!(holds(&server, "t").await.len(), 1, "not kept, not what this is about");
    proxy.pass();
    nothing_left(&server, "t").await;
    let late = timeout(PROMPTLY, behind.remove(0)).await.expect("no turn");
    drop(late.unwrap().expect("no writer holds it"));
    nothing_left(&server, "t").await;
}
