//! A server, services, the console on a port, and a page of it in the browser.

use std::net::TcpListener as Port;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use lock_console::{ConsoleOptions, router};
use lock_runtime::LockClient;
use lock_tests::{RedisServer, eventually};
use serde_json::{Value, json};
use tokio::time::Instant;
use url::{ParseError, Url};

pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A command of chromedriver that WebDriver does not have.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// chromedriver, which ends with its browser when this is dropped.
pub(crate) struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    pub(crate) fn start() -> Self {
        let port = Port::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("no chromedriver; run `cargo xtask console-test`");
        Self { process, port }
    }

    pub(crate) async fn browser(&self, width: u32, height: u32) -> Client {
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ];
        let size = format!("--window-size={width},{height}");
        let args: Vec<&str> = args.into_iter().chain([&*size]).collect();
        let wants = json!({
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(wants.as_object().unwrap().clone());
        let address = format!("http://127.0.0.1:{}", self.port);
        let start = Instant::now();
        loop {
            match builder.connect(&address).await {
                Ok(browser) => return browser,
                Err(error) => assert!(start.elapsed() < 3 * SOON, "no browser: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server, services, and the console on a port.
pub(crate) struct World {
    pub(crate) driver: Driver,
    pub(crate) server: RedisServer,
    pub(crate) url: String,
}

impl World {
    pub(crate) async fn start(options: ConsoleOptions) -> Self {
        let server = RedisServer::start().await;
        let client = LockClient::builder().survey(false).connect(&server.url()).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router(client, options)).await });
        Self { driver: Driver::start(), server, url }
    }

    pub(crate) async fn service(&self, name: &str) -> LockClient {
        LockClient::builder().service(name).connect(&self.server.url()).await.unwrap()
    }

    pub(crate) async fn page(&self) -> Page {
        let browser = self.driver.browser(1280, 800).await;
        browser.goto(&self.url).await.unwrap();
        Page(browser)
    }
}

pub(crate) struct Page(pub(crate) Client);

impl Page {
    pub(crate) async fn js(&self, script: &str) -> Value {
        self.0.execute(script, Vec::new()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The names in the table, as they are shown.
    pub(crate) async fn names(&self) -> Vec<String> {
        let names = "return [...document.querySelectorAll('#rows tr[data-key]')].map((tr) => tr.firstChild.firstChild.textContent)";
        serde_json::from_value(self.js(names).await).unwrap()
    }

    pub(crate) async fn until(&self, bound: Duration, what: &str, script: &str) {
        eventually(bound, what, async || self.js(script).await == json!(true)).await;
    }

    pub(crate) async fn vendor(&self, path: &'static str, body: Value) -> Value {
        self.0.issue_cmd(Vendor { path, body }).await.unwrap()
    }

    pub(crate) async fn color_scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "features": features });
        let body = json!({ "cmd": "Emulation.setEmulatedMedia", "params": params });
        self.vendor("goog/cdp/execute", body).await;
    }

    pub(crate) async fn screenshot(&self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("target/console");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), self.0.screenshot().await.unwrap()).unwrap();
    }

    /// Ends the browser, in whose console there must be no error.
    pub(crate) async fn end(self) {
        let log = self.vendor("se/log", json!({ "type": "browser" })).await;
        let is_bad = |line: &&Value| line["level"] == "SEVERE";
        let bad: Vec<&Value> = log.as_array().unwrap().iter().filter(is_bad).collect();
        // What the page is refused on purpose is an error of the network there.
        let bad: Vec<_> = bad.into_iter().filter(|line| line["source"] != "network").collect();
        assert!(bad.is_empty(), "{bad:?}");
        self.0.close().await.unwrap();
    }
}
