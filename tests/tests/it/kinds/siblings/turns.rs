//! The line inside one hold: its order, its bounds, its end (S-6, S-18, S-34).

use crate::kinds::siblings::soon;
use crate::prelude::*;

/// How long a turn is kept for a future that is not polled (S-34).
const TURN: Duration = Duration::from_secs(1);

async fn reentry(client: &LockClient) -> LockGuard {
    client.mutex("m").lock().await.unwrap()
}

/// S-34: a turn is kept for a second for a future that is not polled; it then lines up again.
#[tokio::test(start_paused = true)]
async fn a_re_entry_that_is_not_polled_is_passed_over() {
    let client = LockClient::in_memory();
    let outer = reentry(&client).await;
    let inside = async {
        let first = reentry(&client).await;
        let (mut asleep, mut next) = (pin!(reentry(&client)), pin!(reentry(&client)));
        assert!(poll!(&mut asleep).is_pending() && poll!(&mut next).is_pending());
        // Long after it lined up: what counts is the time since its turn has come.
        let _ = timeout(TURN * 3, &mut next).await;
        first.release().await.unwrap();
        let released = Instant::now();
        let next = timeout(TURN * 2, next).await.expect("it waits for a future that is not polled");
        assert!(released.elapsed() <= TURN, "{:?}", released.elapsed());
        let early = ms(900);
        assert!(released.elapsed() >= early, "the turn was over after {:?}", released.elapsed());
        assert!(poll!(&mut asleep).is_pending(), "two are inside");
        next.release().await.unwrap();
        asleep.await.release().await.unwrap();
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-18, S-20: the line is bounded, and a shutdown ends it.
#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_and_ends_with_the_client() {
    let client = LockClient::in_memory();
    let bounded = LockOptions::new().max_waiters(1);
    let lock = client.mutex("m").with(bounded);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let mut second = pin!(lock.lock());
        assert!(poll!(&mut second).is_pending());
        let third = lock.lock().await;
        assert!(
            matches!(third, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. })),
            "{third:?}"
        );
        let (second, _) = tokio::join!(second, client.shutdown(ms(10)));
        assert!(matches!(second, Err(LockError::Closed)), "{second:?}");
        drop(first);
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-6: a longer lease is asked for when the turn has come, once.
#[tokio::test(start_paused = true)]
async fn a_re_entry_extends_when_its_turn_has_come() {
    let client = LockClient::in_memory();
    let fixed = |secs| {
        let lease = Lease::Fixed(Duration::from_secs(secs));
        client.mutex("m").with(leased(lease))
    };
    let outer = fixed(2).lock().await.unwrap();
    let inside = async {
        let first = fixed(2).lock().await.unwrap();
        let longer = fixed(10);
        let mut second = pin!(longer.lock());
        assert!(poll!(&mut second).is_pending());
        assert!(outer.remaining() < Duration::from_secs(2), "extended before its turn");
        first.release().await.unwrap();
        let second = second.await.unwrap();
        assert!(second.remaining() > Duration::from_secs(8), "{:?}", second.remaining());
    };
    soon(outer.run(inside)).await.unwrap();
}
