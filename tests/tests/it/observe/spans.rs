//! Spans: when they begin and end, what is around and inside of them, what they say.

use lock_runtime::observe::names::RunOutcome;
use lock_runtime::observe::{ACQUIRE_FIELDS, HOLD_FIELDS, SPAN_ACQUIRE, SPAN_HOLD};
use tracing::{Instrument, Level, info_span};

use crate::observe::scenario::*;
use crate::observe::tracer::{Spanned, Tracer};

fn the_only(mut spans: Vec<Spanned>) -> Spanned {
    assert_eq!(spans.len(), 1, "{spans:?}");
    spans.remove(0)
}

/// §3.4: an acquire, what runs under it and what that takes, each inside the other, with all fields.
#[tokio::test]
async fn spans_nest_as_the_code_does() {
    let tracer = Tracer::default();
    let _here = tracer.install();
    let server = RedisServer::start().await;
    let client = builder().connect(&server.url()).await.unwrap();
    let work = async {
        let guard = client.policy_lock("checkout", ["cart:7"]).lock().await.unwrap();
        let body = async {
            let _inside = info_span!("body").entered();
            client.mutex("cart:7").lock().await.unwrap().token()
        };
        assert_eq!(guard.run(body).await.unwrap(), guard.token());
        let token = guard.token().get().to_string();
        guard.release().await.unwrap();
        token
    };
    let token = work.instrument(info_span!("request")).await;

    let request = the_only(tracer.spans("request"));
    let acquires = tracer.closed(SPAN_ACQUIRE);
    let [acquire, reentry] = &acquires[..] else { panic!("{acquires:?}") };
    let (hold, body) = (the_only(tracer.closed(SPAN_HOLD)), the_only(tracer.closed("body")));
    assert_eq!((acquire.parent, hold.parent), (Some(request.number), Some(request.number)));
    assert_eq!((body.parent, reentry.parent), (Some(hold.number), Some(body.number)));

    for (span, fields) in [(acquire, ACQUIRE_FIELDS), (&hold, HOLD_FIELDS)] {
        assert_eq!(span.declared, fields);
        assert_eq!(span.fields.len(), fields.len(), "{span:?}");
        assert_eq!((span.level, span.target), (Level::DEBUG, "lock_runtime"));
        assert_eq!(span.field("lock.name"), "\"cart:7\"");
        assert_eq!(span.field("lock.kind"), "mutex");
        assert_eq!(span.field("lock.policy"), "\"checkout\"");
        assert_eq!(span.field("lock.token"), token);
    }
    assert_eq!(acquire.field("lock.outcome"), "acquired");
    assert!(acquire.field("lock.waited").ends_with('s') && hold.field("lock.held").ends_with('s'));
    assert_eq!(reentry.field("lock.outcome"), "reentered");
    assert_eq!(reentry.field("lock.policy"), "\"none\"");
    assert_eq!(hold.field("lock.outcome"), "done");
}

/// S-13: the span of a hold ends with what ran in it, however that ended.
#[tokio::test]
async fn every_body_ends_its_span() {
    let tracer = Tracer::default();
    let _here = tracer.install();
    let client = builder().in_memory().unwrap();
    let guard = client.mutex("a").with(fixed(ms(120))).lock().await.unwrap();
    let stuck = async {
        tracing::info!("in the body");
        pending::<()>().await;
    };
    assert!(guard.run(stuck).await.unwrap_err().is_lost());
    assert!(guard.run(async {}).await.unwrap_err().is_lost());
    let guard = client.mutex("b").lock().await.unwrap();
    let mut dropped = Box::pin(guard.run(pending::<()>()));
    assert!(poll!(dropped.as_mut()).is_pending());
    assert!(!tracer.spans(SPAN_HOLD)[2].is_closed());
    drop(dropped);
    let _never_polled = guard.run(async {});
    guard.run(async {}).await.unwrap();

    let spans = tracer.closed(SPAN_HOLD);
    let outcomes: Vec<_> = spans.iter().map(|span| span.field("lock.outcome")).collect();
    let [done, lost, cancelled] =
        [RunOutcome::Done, RunOutcome::Lost, RunOutcome::Cancelled].map(RunOutcome::as_str);
    assert_eq!(outcomes, [lost, lost, cancelled, done]);
    assert_eq!(tracer.events_in(spans[0].number), ["in the body"]);
}

#[tokio::test]
async fn events_of_an_acquire_are_inside_of_it() {
    let tracer = Tracer::default();
    let _here = tracer.install();
    let server = RedisServer::start().await;
    let Pair { client, .. } = redis(&server).await;
    let _held = client.mutex("a").lock().await.unwrap();
    server.client().cmd(&["ACL", "SETUSER", "default", "resetchannels"]).await;
    let Pair { other, .. } = redis(&server).await;
    other.mutex("a").with(waits(ms(50))).lock().await.unwrap_err();
    let span = tracer.closed(SPAN_ACQUIRE).pop().unwrap();
    assert_eq!(span.field("lock.outcome"), "timeout");
    assert_eq!(tracer.events_in(span.number), ["no subscription"]);
}
