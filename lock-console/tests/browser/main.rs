//! The page in a real browser: headless Chromium, driven over WebDriver.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod connection;
mod keyboard;
mod world;

use std::time::Duration;

use futures_util::future::join_all;
use lock_console::ConsoleOptions;
use lock_runtime::{LockClient, LockGuard};
use lock_tests::eventually;
use serde_json::json;
use tokio::time::Instant;

use self::world::{Page, SOON, World};

/// A released lock has to be gone after this.
const GONE: Duration = Duration::from_secs(2);

/// In one of a few scrolls over 2 000 locks, no frame may take longer, drawn in software: a page that draws them all is too slow
/// each time, a busy machine is not.
const STALL: u64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn the_table_follows_the_locks() {
    let world = World::start(ConsoleOptions::new()).await;
    let (billing, orders) = (world.service("billing").await, world.service("orders").await);
    let held = billing.mutex("order:1").lock().await.unwrap();
    let _other = orders.fair_mutex("job:1").lock().await.unwrap();
    let waiting = tokio::spawn(orders.mutex("order:1").lock());
    let page = world.page().await;
    eventually(SOON, "the table is filled", async || page.names().await == ["job:1", "order:1"])
        .await;
    page.until(SOON, "holder, place and waiters are shown", "
        const text = document.querySelector('#rows tr[data-key=\"order:1\"]')?.textContent ?? '';
        return text.includes('billing@') && text.includes('browser/main.rs:') && text.includes('1up to')").await;

    // A filter, a row that opens, and its details.
    page.js("const f = document.getElementById('filter'); f.value = 'billing'; f.dispatchEvent(new Event('input'))").await;
    eventually(SOON, "the filter holds", async || page.names().await == ["order:1"]).await;
    page.js("const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input'))").await;
    page.js("document.querySelector('#rows tr[data-key=\"order:1\"]').focus()").await;
    page.js("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))").await;
    page.until(SOON, "the details are open", "
        const text = document.getElementById('detail').open ? document.getElementById('detail').textContent : '';
        return text.includes('Waiters') && text.includes('orders@') && text.includes('Since this page was opened')").await;
    assert_eq!(
        page.js("return document.getElementById('release').hidden").await,
        json!(true),
        "not permitted"
    );
    page.js("document.getElementById('close').click()").await;

    // A released lock leaves, and one that is paused stays.
    waiting.abort();
    let start = Instant::now();
    held.release().await.unwrap();
    eventually(GONE, "a released lock leaves", async || page.names().await == ["job:1"]).await;
    assert!(start.elapsed() <= GONE);
    page.js("document.getElementById('tab-processes').click()").await;
    page.until(
        SOON,
        "the processes are shown",
        "
        const text = document.getElementById('process-rows').textContent;
        return text.includes('billing@') && text.includes('orders@')",
    )
    .await;
    page.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn a_deadlock_shows_on_every_tab_and_in_both_themes() {
    let world = World::start(ConsoleOptions::new()).await;
    let (billing, orders) = (world.service("billing").await, world.service("warehouse").await);
    let one = billing.mutex("acct:ada").lock().await.unwrap();
    let other = orders.mutex("acct:bob").lock().await.unwrap();
    let (bob, ada) = (billing.mutex("acct:bob"), orders.mutex("acct:ada"));
    let _tasks = [
        tokio::spawn(async move { one.run(bob.lock()).await.map(drop) }),
        tokio::spawn(async move { other.run(ada.lock()).await.map(drop) }),
    ];
    let queue = billing.fair_mutex("invoice:numbers").lock().await.unwrap();
    let waits = (0..3).map(|_| tokio::spawn(billing.fair_mutex("invoice:numbers").lock()));
    let _waits: Vec<_> = waits.collect();
    let page = world.page().await;
    for tab in ["graph", "processes", "locks"] {
        page.js(&format!("document.getElementById('tab-{tab}').click()")).await;
        page.until(SOON, "the deadlock is shown", "
            const alarm = document.getElementById('alarm');
            return !alarm.hidden && alarm.textContent.includes('billing@') && alarm.textContent.includes('acct:bob')").await;
    }
    page.js("document.getElementById('tab-graph').click()").await;
    page.until(
        SOON,
        "it is red",
        "return document.querySelectorAll('#drawing path.bad').length === 4",
    )
    .await;
    page.js("document.getElementById('tab-locks').click()").await;
    for scheme in ["light", "dark"] {
        page.color_scheme(scheme).await;
        page.until(
            SOON,
            "the theme follows",
            &format!("return matchMedia('(prefers-color-scheme: {scheme})').matches"),
        )
        .await;
        accessible(&page, scheme).await;
    }
    drop(queue);
    page.end().await;
}

/// Mutexes, a fair lock and readers at work, and nothing to report. The pictures of the README are made here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn services_at_work_raise_no_alarm() {
    let world = World::start(ConsoleOptions::new()).await;
    let (billing, orders) = (world.service("billing").await, world.service("orders").await);
    let warehouse = world.service("warehouse").await;
    let order = orders.mutex("order:4711").lock().await.unwrap();
    let other = orders.mutex("order:4712").lock().await.unwrap();
    let numbers = billing.fair_mutex("invoice:numbers").lock().await.unwrap();
    let prices = [&billing, &orders].map(|client| client.rw_lock("prices").read());
    let prices = join_all(prices).await;
    let stock = warehouse.mutex("stock:hammer").lock().await.unwrap();
    let report = billing.mutex("report:nightly").lock().await.unwrap();
    let waits = (0..3).map(|_| tokio::spawn(orders.fair_mutex("invoice:numbers").lock()));
    let waits: Vec<_> = waits.chain([tokio::spawn(billing.mutex("order:4711").lock())]).collect();
    let page = world.page().await;
    page.until(
        SOON,
        "all are shown, the waiters as well",
        "
        const text = document.getElementById('rows').textContent;
        return document.querySelectorAll('#rows tr').length === 6 && /invoice:numbers.*3up to [2-9]/.test(text)",
    )
    .await;
    assert_eq!(page.js("return document.getElementById('alarm').hidden").await, json!(true));
    for scheme in ["light", "dark"] {
        page.color_scheme(scheme).await;
        page.screenshot(&format!("console-{scheme}.png")).await;
    }
    drop((order, other, numbers, prices, stock, report, waits));
    page.end().await;
}

/// axe-core finds no serious violation on any tab.
async fn accessible(page: &Page, scheme: &str) {
    let axe =
        std::env::var("AXE_JS").expect("the path of axe.min.js; run `cargo xtask console-test`");
    let axe = std::fs::read_to_string(axe).unwrap();
    for tab in ["locks", "graph", "processes"] {
        page.js(&format!("document.getElementById('tab-{tab}').click()")).await;
        let run = format!(
            "{axe}\nconst done = arguments[arguments.length - 1];
            axe.run(document).then((found) => done(found.violations
                .filter((one) => ['serious', 'critical'].includes(one.impact))
                .map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | '))));"
        );
        let found = page.0.execute_async(&run, Vec::new()).await.unwrap();
        assert_eq!(found, json!([]), "{scheme}, {tab}");
    }
    page.js("document.getElementById('tab-locks').click()").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn a_lock_is_released_once_its_name_is_typed() {
    let world = World::start(ConsoleOptions::new().allow_release(true)).await;
    let billing = world.service("billing").await;
    let held = billing.mutex("order:1").lock().await.unwrap();
    let page = world.page().await;
    eventually(SOON, "the table is filled", async || page.names().await == ["order:1"]).await;
    page.js("document.querySelector('#rows tr[data-key]').click()").await;
    page.until(SOON, "it may release", "return !document.getElementById('release').hidden").await;
    let type_name = |name: &str| {
        format!("const t = document.getElementById('typed'); t.value = '{name}'; t.dispatchEvent(new Event('input'));
            return document.querySelector('#release button').disabled")
    };
    assert_eq!(page.js(&type_name("order:2")).await, json!(true), "another name");
    assert_eq!(page.js(&type_name("order:1")).await, json!(false));
    page.js("document.querySelector('#release button').click()").await;
    page.until(
        SOON,
        "it is released",
        "return document.getElementById('release-answer').textContent === 'released'",
    )
    .await;
    eventually(SOON, "the holder learns of it", async || held.is_lost()).await;
    page.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn names_are_text() {
    let world = World::start(ConsoleOptions::new()).await;
    let odd = world.service("<img src=x onerror=\"window.hacked=1\">\n'\u{202e}").await;
    let mut names = vec![
        "<script>window.hacked=1</script>".to_owned(),
        "quotes \"'` and &amp;".to_owned(),
        "right to left \u{202e}dettih".to_owned(),
        "שלום 42".to_owned(),
    ];
    names.sort();
    let _held: Vec<LockGuard> = join_all(names.iter().map(|name| odd.mutex(name).lock()))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let page = world.page().await;
    eventually(SOON, "all are shown as they are", async || {
        let mut shown = page.names().await;
        shown.sort();
        shown == names
    })
    .await;
    page.js("document.querySelector('#rows tr[data-key]').click()").await;
    for tab in ["graph", "processes"] {
        page.js(&format!("document.getElementById('tab-{tab}').click()")).await;
    }
    page.until(
        SOON,
        "the process is shown",
        "return document.getElementById('process-rows').textContent.includes('onerror')",
    )
    .await;
    assert_eq!(
        page.js(
            "return [window.hacked === undefined, document.images.length, document.scripts.length]"
        )
        .await,
        json!([true, 0, 1])
    );
    page.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn two_thousand_locks_scroll() {
    let world = World::start(ConsoleOptions::new()).await;
    let client = LockClient::builder().service("many").connect(&world.server.url()).await.unwrap();
    let acquire = (0..2_000).map(|number| client.mutex(format!("order:{number:04}")).lock());
    let held: Vec<_> = join_all(acquire).await.into_iter().map(Result::unwrap).collect();
    let page = world.page().await;
    page.until(
        3 * SOON,
        "all are counted",
        "return document.getElementById('count-locks').textContent === '2000'",
    )
    .await;
    let rows =
        page.js("return document.querySelectorAll('#rows tr').length").await.as_u64().unwrap();
    assert!(rows < 100, "{rows} rows are drawn");
    let scroll = "const done = arguments[arguments.length - 1];
        const list = document.getElementById('list');
        const step = list.scrollHeight / 60;
        let [last, longest, steps] = [performance.now(), 0, 0];
        const frame = (now) => {
            longest = Math.max(longest, now - last);
            last = now;
            list.scrollTop += step;
            if (++steps < 70) requestAnimationFrame(frame);
            else setTimeout(() => done([Math.round(longest), document.querySelector('#rows').textContent.includes('order:1999')]), 100);
        };
        requestAnimationFrame(frame);";
    let mut longest: Vec<u64> = Vec::new();
    // Other programs may stop the browser for a moment; a page that stalls by itself does so more than once.
    while longest.iter().filter(|longest| **longest < STALL).count() < 2 {
        assert!(longest.len() < 5, "the longest frames took {longest:?} ms");
        page.js("document.getElementById('list').scrollTop = 0").await;
        let seen = page.0.execute_async(scroll, Vec::new()).await.unwrap();
        assert_eq!(seen[1], json!(true), "the last lock is drawn");
        longest.push(seen[0].as_u64().unwrap());
    }
    drop(held);
    page.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo xtask console-test"]
async fn a_narrow_page_does_not_scroll_sideways() {
    let world = World::start(ConsoleOptions::new()).await;
    let client = world.service("billing").await;
    let long = client.mutex("a lock with a name that is longer than a telephone is wide").lock();
    let _held = (long.await.unwrap(), client.mutex("order:1234567").lock().await.unwrap());
    let browser = world.driver.browser(500, 740).await;
    let page = Page(browser);
    let metrics = json!({ "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true });
    page.vendor(
        "goog/cdp/execute",
        json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics }),
    )
    .await;
    page.0.goto(&world.url).await.unwrap();
    eventually(SOON, "the table is filled", async || page.names().await.len() == 2).await;
    let name = "document.querySelector('#rows tr[data-key=\"order:1234567\"]').firstChild";
    let whole = format!(
        "return {name}.scrollWidth <= {name}.clientWidth && {name}.innerText.includes('billing@')"
    );
    assert_eq!(page.js(&whole).await, json!(true), "an everyday name and its holder can be read");
    let wide = page.js("return [innerWidth, document.documentElement.scrollWidth]").await;
    assert_eq!(wide, json!([360, 360]));
    page.screenshot("console-narrow.png").await;
    page.end().await;
}
