//! Requests over HTTP, and the key that a layer makes of one.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use lock_runtime::{LockClient, LockKey};
use lock_tower::{HeldLock, HttpLockLayer, LockLayer};
use tokio::runtime::{Builder, Runtime};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::input::{parts, text};

/// Pieces of paths and queries.
const WORDS: &[&str] = &[
    "q=",
    "&q=",
    "%71=",
    "&",
    "=",
    "+",
    "%",
    "%2",
    "%2F",
    "%2f",
    "%00",
    "%26",
    "%3D",
    "%C3%BC",
    "%C3",
    "%ff",
    "%EF%BB%BF",
    "/",
    "//",
    "..",
    "{id}",
    ":",
    "%3A",
    "%25",
    "%7B",
    "x",
    "7",
];

struct World {
    runtime: Runtime,
    layer: HttpLockLayer,
}

impl World {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let layer = LockLayer::http().client(LockClient::in_memory());
        let layer = layer.key("k:{query.q}:{path.id}").route("/o/{id}").build();
        Self { runtime, layer: layer.expect("a layer") }
    }

    /// The key under which the handler runs, if it does.
    fn key_of(&self, request: Request<String>) -> Option<String> {
        let handler = service_fn(async |_: Request<String>| {
            let held = HeldLock::current().expect("a handler has its lock");
            Ok::<_, Infallible>(Response::new(held.key().as_str().to_owned()))
        });
        let answered = self.runtime.block_on(self.layer.layer(handler).oneshot(request));
        let answer = answered.expect("this service does not fail");
        answer.status().is_success().then(|| {
            let body = self.runtime.block_on(answer.into_body().collect()).expect("a body");
            String::from_utf8(body.to_bytes().to_vec()).expect("a key is text")
        })
    }
}

thread_local! {
    static WORLD: World = World::new();
}

/// The handler runs under the key of the decoded values, or not at all.
pub fn request_key(input: &[u8]) {
    let [id, query] = parts(input).map(|part| text(part, WORDS));
    let Ok(request) = Request::post(format!("/o/{id}?{query}")).body(String::new()) else {
        return;
    };
    let uri = request.uri().clone();
    let expected = expected(uri.path(), uri.query().unwrap_or_default());
    let made = WORLD.with(|world| world.key_of(request));
    assert_eq!(made, expected, "{uri}");
}

/// The key by a slow and obvious reading of the request.
fn expected(path: &str, query: &str) -> Option<String> {
    let [_, _, id] = path.split('/').collect::<Vec<_>>()[..] else { return None };
    let id = decoded(id).filter(|id| !id.is_empty())?;
    let named = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        form_decoded(name).is_some_and(|name| name == "q")
    };
    let [pair] = query.split('&').filter(named).collect::<Vec<_>>()[..] else { return None };
    let (_, value) = pair.split_once('=').unwrap_or_default();
    let value = form_decoded(value).filter(|value| !value.is_empty())?;
    let key = LockKey::builder().text("k:").part(&value).text(":").part(&id).build();
    Some(key.ok()?.as_str().to_owned())
}

fn form_decoded(text: &str) -> Option<String> {
    decoded(&text.replace('+', " "))
}

/// A byte for each percent sign with two hexadecimal digits; `None` if that is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let code = behind.get(..2).filter(|_| *first == b'%');
        let code = code.filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let byte = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok()
}
