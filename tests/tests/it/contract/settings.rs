//! What a client's builder refuses.

use crate::prelude::*;

type Set = fn(LockClientBuilder, Duration) -> LockClientBuilder;

const SETTINGS: [(&str, Set); 3] = [
    ("command_timeout", LockClientBuilder::command_timeout),
    ("store_patience", LockClientBuilder::store_patience),
    ("poll_cap", LockClientBuilder::poll_cap),
];

const SHORTEST: Duration = ms(5);
const LONGEST: Duration = secs(60 * 60 * 24);
const A_BIT: Duration = Duration::from_nanos(1);

#[tokio::test]
async fn durations_out_of_range_are_refused() {
    for (name, set) in SETTINGS {
        for wrong in [Duration::ZERO, SHORTEST - A_BIT, LONGEST + A_BIT, Duration::MAX] {
            let builder = set(LockClient::builder(), wrong);
            let problem = match builder.clone().in_memory().map(drop) {
                Err(LockError::InvalidOptions(problem)) => problem,
                other => panic!("{name} of {wrong:?}: {other:?}"),
            };
            assert_eq!(problem, format!("{name} is {wrong:?}; give between 5ms and 86400s"));
            // Before anything is sent: no client listens there.
            let error = builder.connect("redis://127.0.0.1:1").await.unwrap_err();
            assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
        }
        for right in [SHORTEST, LONGEST] {
            set(LockClient::builder(), right).in_memory().unwrap();
        }
    }
}
