//! The page without a mouse.

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::key::Key;
use lock_console::ConsoleOptions;
use lock_tests::eventually;
use serde_json::json;

use crate::world::{Page, SOON, World};

async fn press(page: &Page, key: char) {
    let keys = KeyActions::new("keys".to_owned())
        .then(KeyAction::Down { value: key })
        .then(KeyAction::Up { value: key });
    page.0.perform_actions(keys).await.unwrap();
}

async fn write(page: &Page, text: &str) {
    for key in text.chars() {
        press(page, key).await;
    }
}

/// Presses Tab until the element that matches has the focus, at most so often.
async fn tab_to(page: &Page, selector: &str, most: usize) {
    for _ in 0..most {
        press(page, Key::Tab.into()).await;
        if page.js(&format!("return document.activeElement.matches('{selector}')")).await
            == json!(true)
        {
            return;
        }
    }
    panic!("{selector} is not reached by Tab");
}

/// Filter, sort, row, details, release and the tabs, with keys alone; each survey leaves the focus where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn everything_is_reached_by_key() {
    let world = World::start(ConsoleOptions::new().allow_release(true)).await;
    let billing = world.service("billing").await;
    let mut held = Vec::new();
    for name in ["invoice:1", "order:1", "order:2"] {
        held.push(billing.mutex(name).lock().await.unwrap());
    }
    let page = world.page().await;
    eventually(SOON, "the table is filled", async || page.names().await.len() == 3).await;
    tab_to(&page, "#filter", 10).await;
    write(&page, "order").await;
    eventually(SOON, "the filter holds", async || page.names().await == ["order:1", "order:2"])
        .await;
    tab_to(&page, "[data-sort=key]", 10).await;
    press(&page, Key::Enter.into()).await;
    eventually(SOON, "it sorts the other way", async || {
        page.names().await == ["order:2", "order:1"]
    })
    .await;
    tab_to(&page, "#rows tr", 10).await;
    press(&page, Key::Down.into()).await;
    let focused = "return document.activeElement.dataset.key";
    assert_eq!(page.js(focused).await, json!("order:1"));
    // Two surveys later: one that shows another lock, and one that does not show it any more.
    let other = billing.mutex("order:0").lock().await.unwrap();
    eventually(SOON, "another lock shows", async || page.names().await.len() == 3).await;
    other.release().await.unwrap();
    eventually(SOON, "it is gone", async || page.names().await.len() == 2).await;
    assert_eq!(page.js(focused).await, json!("order:1"), "the focus stays");
    press(&page, Key::Enter.into()).await;
    page.until(SOON, "the details are open", "return document.getElementById('detail').open").await;
    tab_to(&page, "#typed", 10).await;
    write(&page, "order:1").await;
    press(&page, Key::Enter.into()).await;
    eventually(SOON, "the lock is released", async || held[1].is_lost()).await;
    press(&page, Key::Escape.into()).await;
    page.until(SOON, "the details are closed", "return !document.getElementById('detail').open")
        .await;

    page.js("document.activeElement.blur(); document.getElementById('pause').focus()").await;
    tab_to(&page, "#tab-locks", 3).await;
    press(&page, Key::Left.into()).await;
    page.until(SOON, "the last tab is shown", "return !document.getElementById('processes').hidden && document.activeElement.id === 'tab-processes'").await;
    page.end().await;
}
