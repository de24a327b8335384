//! A user of the server whose rights end at one namespace: the ACL line of `docs/faq.md`.

use std::path::Path;

use crate::prelude::*;

/// The words of the command on the page.
fn acl_line() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faq.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER")).expect("the page has it");
    line.replace("SECRET", "secret").split(' ').map(str::to_owned).collect()
}

async fn shop(server: &RedisServer, namespace: &str) -> Result<LockClient, LockError> {
    let url = server.url().replace("redis://", "redis://shop:secret@");
    LockClient::builder().namespace(namespace).connect(&url).await
}

/// Each kind is acquired, waited for and handed to another client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_locks_need_no_other_keys() {
    let server = RedisServer::start().await;
    let raw = server.client();
    raw.cmd(&acl_line().iter().map(String::as_str).collect::<Vec<_>>()).await;

    let (one, other) = (shop(&server, "shop").await.unwrap(), shop(&server, "shop").await.unwrap());
    for (kind, _) in KINDS {
        let held = take_named(&one, kind, LockOptions::default()).await.unwrap();
        let other = other.clone();
        let waiting =
            tokio::spawn(async move { take_named(&other, kind, LockOptions::default()).await });
        if kind != "read" {
            // It may subscribe, or it would ask once a second.
            let channel = format!("{{shop:{kind}}}");
            soon!("it listens", raw.lock_channels().await.iter().any(|name| name.contains(&channel)));
        }
        held.release().await.unwrap();
        timeout(SOON, waiting).await.expect(kind).unwrap().unwrap().release().await.unwrap();
    }
    let latch = one.latch("latch");
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 0);
    one.multi_lock(["a", "b"]).lock().await.unwrap().release().await.unwrap();

    // Another namespace is refused, and said to be.
    let stranger = shop(&server, "bank").await.unwrap();
    let error = stranger.mutex("m").lock().await.unwrap_err();
    assert!(
        matches!(&error, LockError::Store(store) if store.kind() == StoreErrorKind::Denied),
        "{error:?}"
    );
}
