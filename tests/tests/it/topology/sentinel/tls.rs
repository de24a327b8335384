//! Sentinels and servers that speak TLS only, to who shows a certificate.

use super::world::{FAILOVER, NAME};
use crate::prelude::*;
use crate::support::authority::Authority;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_over_tls() {
    let authority = Authority::new("ours");
    let server = authority.issue_for("127.0.0.1");
    let master = server.server().client_authority(&authority.pem).start().await;
    let sentinels = Sentinels::builder(NAME).tls(&server.certificate, &server.key, &authority.pem);
    let sentinels = sentinels.start(&master, 0).await;
    let urls = sentinels.urls();
    let ours =
        || LockClient::builder().tls(authority.issue_for("client").shown_with(authority.trusted()));
    let client =
        ours().store_patience(FAILOVER).connect_sentinel("rediss://locks", &urls).await.unwrap();
    let guard = client.mutex("tls").lock().await.unwrap();
    assert!(master.client().exists("tls").await);
    guard.release().await.unwrap();

    // Neither half of the way goes without.
    for (master, node) in
        [(NAME, &urls[0]), ("rediss://locks", &urls[0].replace("rediss", "redis"))]
    {
        let Err(LockError::Store(error)) = ours().connect_sentinel(master, [node]).await else {
            panic!("{master} and {node} can be used");
        };
        assert_eq!(error.kind(), StoreErrorKind::Config, "{error:?}");
        assert!(error.to_string().contains("rediss://"), "{error}");
    }
    // Nobody trusts everybody: without the options, the authority is not one of the well-known.
    let Err(LockError::Store(error)) =
        LockClient::builder().connect_sentinel("rediss://locks", &urls).await
    else {
        panic!("trusted");
    };
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error:?}");
}
