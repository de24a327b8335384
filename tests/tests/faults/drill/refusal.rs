//! A server that answers every request of a lock with an error for a while.

use crate::prelude::*;

/// More than the clients of a drill ask a server a second that refuses everything: theirs are three, with 13 tasks each.
const MOST_A_SECOND: u64 = 3_000;

/// Runs a drill whose server answers with errors of this code from `enter` to `leave`.
///
/// Checks that an acquire fails with that code when its wait is over and not before, that holds whose lease outlasts the
/// refusal are kept, that tasks pause between their requests, and that every party has every lock again within 4 s.
pub(crate) async fn refused(
    code: &str,
    server: impl AsyncFnOnce(&RedisServer),
    enter: impl AsyncFnOnce(&RedisServer),
    leave: impl AsyncFnOnce(&RedisServer),
) {
    let mut drill = Drill::start().await;
    server(&drill.server).await;
    let kept = Kept::take_for(&drill.near.client, "kept", secs(15)).await;
    let refuse = async |drill: &mut Drill| {
        drill.server.reset_stats().await;
        enter(&drill.server).await;
        let start = Instant::now();
        let wait = ms(300);
        for kind in EXCLUSIVE {
            // A first attempt may fail otherwise: the client reconnects after such a reply.
            eventually(SOON, &format!("the error has the code {code}"), async || {
                let asked = Instant::now();
                let acquire = take(&drill.near.client, kind, "refused", waits(wait));
                let error = acquire.await.unwrap_err();
                assert!(asked.elapsed() >= wait, "{code}: gave up after {:?}", asked.elapsed());
                let (kind, text) = kind_and_text(&error);
                assert!(kind.is_transient() && error.is_retryable(), "{kind:?}: {text}");
                text.contains(code)
            })
            .await;
        }
        sleep(LEASE).await;
        let refusals = drill.server.error_replies(code).await;
        let most = MOST_A_SECOND * (start.elapsed().as_secs() + 1);
        eprintln!("{refusals} times {code} in {:?}", start.elapsed());
        assert!((3..=most).contains(&refusals), "{refusals} times {code}");
        leave(&drill.server).await;
    };
    drill.fault(May::Delay, refuse).await;
    kept.release().await;
    drill.end(secs(4)).await;
}

/// The drill of a server that these commands prepare, and have refuse and accept again.
macro_rules! refusal {
    ($code:literal, $prepare:literal, $enter:literal, $leave:literal) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn every_lock_recovers() {
            let run = |command: &'static str| {
                async move |server: &RedisServer| {
                    let words: Vec<_> = command.split(' ').collect();
                    server.client().cmd(&words).await;
                }
            };
            refused($code, run($prepare), run($enter), run($leave)).await;
        }
    };
}
pub(crate) use refusal;
