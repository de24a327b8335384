//! A page whose console goes away and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::any;
use http::StatusCode;
use lock_console::{ConsoleOptions, router};
use lock_runtime::LockClient;
use lock_tests::eventually;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::world::{SOON, World};

async fn serve(port: u16, app: Router) -> JoinHandle<()> {
    let mut listener = TcpListener::bind(("127.0.0.1", port)).await;
    eventually(SOON, "the port is free", async || {
        if listener.is_err() {
            listener = TcpListener::bind(("127.0.0.1", port)).await;
        }
        listener.is_ok()
    })
    .await;
    let listener = listener.unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() })
}

/// A proxy that answers while the console restarts ends the event stream for good; the page begins another, and may release
/// with the new console's token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn a_page_outlives_a_restart_of_its_console() {
    let mut world = World::start(ConsoleOptions::new()).await;
    let client = LockClient::builder().survey(false).connect(&world.server.url()).await.unwrap();
    let console = || router(client.clone(), ConsoleOptions::new().allow_release(true));
    let billing = world.service("billing").await;
    let held = billing.mutex("order:1").lock().await.unwrap();
    let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = first.local_addr().unwrap().port();
    let app = console();
    // Each answer is its own task, so a runtime of its own ends them all.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build();
    let runtime = runtime.unwrap();
    runtime.spawn(async move { axum::serve(first, app).await });
    world.url = format!("http://127.0.0.1:{port}/");
    let page = world.page().await;
    eventually(SOON, "the table is filled", async || page.names().await == ["order:1"]).await;

    runtime.shutdown_background();
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    let refuse = any(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { StatusCode::BAD_GATEWAY }
    });
    let proxy = serve(port, Router::new().fallback(refuse)).await;
    page.until(
        SOON,
        "the outage shows",
        "
        const status = document.getElementById('status');
        return status.classList.contains('failed') && status.textContent.includes('no connection')",
    )
    .await;
    eventually(SOON, "the proxy has refused the page", async || {
        refused.load(Ordering::Relaxed) > 0
    })
    .await;
    proxy.abort();
    let _second = serve(port, console()).await;
    page.until(
        2 * SOON,
        "the page is back",
        "return !document.getElementById('status').classList.contains('failed')",
    )
    .await;

    page.js("document.querySelector('#rows tr[data-key]').click()").await;
    page.until(SOON, "it may release", "return !document.getElementById('release').hidden").await;
    page.js("const t = document.getElementById('typed'); t.value = 'order:1'; t.dispatchEvent(new Event('input'));
        document.querySelector('#release button').click()").await;
    page.until(
        SOON,
        "it is released",
        "return document.getElementById('release-answer').textContent === 'released'",
    )
    .await;
    drop(held);
    page.end().await;
}
