//! Requests over HTTP, and the key that a layer makes of one.

use std::convert::Infallible;

use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use lock_runtime::{LockClient, LockKey};
use lock_tower::http::RefusalKind;
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

/// Pieces of routes and of the paths that they match.
const SEGMENTS: &[&str] = &[
    "/{a}", "/{b}", "/{*a}", "/{*rest}", "{a}", "{", "}", "{}", "*", "/", "//", "/o", "/%6f",
    "/%6F", "%", "%2", "%2F", "%00", "%25", "%7Ba%7D", "/\u{fc}", "/%C3%BC", "/%c3%bc", "%C3",
    "%FF", "+", ":", "%3A", "?", "..", "x",
];

struct World {
    runtime: Runtime,
    client: LockClient,
    /// For [`request_key`].
    layer: HttpLockLayer,
    /// For [`request_values`].
    values: HttpLockLayer,
}

impl World {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let client = LockClient::in_memory();
        let layer = LockLayer::http().client(client.clone());
        let layer = layer.key("k:{query.q}:{path.id}").route("/o/{id}").build();
        let values = LockLayer::http().client(client.clone());
        let values = values.key("k:{query.q}:{header.x-h}").build();
        let (layer, values) = (layer.expect("a layer"), values.expect("a layer"));
        Self { runtime, client, layer, values }
    }

    /// The key under which the handler runs, or the answer of a layer that refuses the request.
    fn key_of(&self, layer: &HttpLockLayer, request: Request<String>) -> Result<String, String> {
        let handler = service_fn(async |_: Request<String>| {
            let held = HeldLock::current().expect("a handler has its lock");
            Ok::<_, Infallible>(Response::new(held.key().as_str().to_owned()))
        });
        let answered = self.runtime.block_on(layer.layer(handler).oneshot(request));
        let answer = answered.expect("this service does not fail");
        let status = answer.status();
        let body = self.runtime.block_on(answer.into_body().collect()).expect("a body");
        let body = String::from_utf8(body.to_bytes().to_vec()).expect("a key is text");
        if status.is_success() {
            return Ok(body);
        }
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        Err(body)
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
    let made = WORLD.with(|world| world.key_of(&world.layer, request));
    assert_eq!(made.ok(), expected, "{uri}");
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

/// A key has the decoded values, from which it can be read again; values that differ make another key; a request
/// without the values is told so.
pub fn request_values(input: &[u8]) {
    let [query, headers, other_query, other_headers] = parts(input);
    let made = [(query, headers), (other_query, other_headers)].map(|(query, headers)| {
        let query = text(query, WORDS);
        let mut request = Request::post(format!("/?{query}"));
        for line in headers.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            request = request.header("x-h", HeaderValue::from_bytes(line).ok()?);
        }
        let request = request.body(String::new()).ok()?;
        let values = values(&request);
        let made = WORLD.with(|world| world.key_of(&world.values, request));
        checked(made, values)
    });
    check_distinct(&made);
}

/// The values of `{query.q}` and `{header.x-h}` by a slow and obvious reading of the request.
fn values(request: &Request<String>) -> Result<Vec<String>, Refused> {
    let mut found = Vec::new();
    for pair in request.uri().query().unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if form_decoded(name).as_deref() == Some("q") {
            found.push(form_decoded(value));
        }
    }
    let query = only(found).map_err(|kind| (kind, "query parameter `q`".to_owned()))?;
    let headers = request.headers().iter().filter(|(name, _)| *name == "x-h");
    let header = only(headers.map(|(_, value)| visible(value.as_bytes())).collect());
    let header = header.map_err(|kind| (kind, "header `x-h`".to_owned()))?;
    Ok(vec![query, header])
}

/// The only value; `None` stands for a value that cannot be used.
fn only(mut found: Vec<Option<String>>) -> Result<String, RefusalKind> {
    match found.len() {
        0 => Err(RefusalKind::KeyMissing),
        1 => found.remove(0).filter(|value| !value.is_empty()).ok_or(RefusalKind::KeyInvalid),
        _ => Err(RefusalKind::KeyInvalid),
    }
}

fn visible(value: &[u8]) -> Option<String> {
    let is_visible = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    value.iter().all(is_visible).then(|| value.iter().copied().map(char::from).collect())
}

/// A layer has the routes that can be understood, and finds in a path the parameters that are there; paths with
/// other values make another key.
pub fn request_route(input: &[u8]) {
    let [pattern, path, other] = parts(input).map(|part| text(part, SEGMENTS));
    let route = route(&pattern);
    let mut names: Vec<_> = route.iter().flatten().filter_map(Segment::name).collect();
    names.truncate(2);
    if names.iter().any(|name| !name.chars().all(char::is_alphanumeric)) {
        return;
    }
    let parameters = names.iter().map(|name| format!(":{{path.{name}}}"));
    let key = format!("k{}:{{route}}", parameters.collect::<String>());
    WORLD.with(|world| {
        let layer = LockLayer::http().client(world.client.clone()).key(key);
        let layer = layer.route(pattern.as_str()).build();
        assert_eq!(layer.is_ok(), route.is_some(), "{pattern:?}: {:?}", layer.err());
        let (Ok(layer), Some(route)) = (layer, &route) else { return };
        let made = [path, other].map(|path| {
            let request = Request::post(path).body(String::new()).ok()?;
            let values = named(route, &names, request.uri().path());
            let values = values.map(|values| [values, vec![pattern.clone()]].concat());
            checked(world.key_of(&layer, request), values)
        });
        check_distinct(&made);
    });
}

/// A segment of a route.
enum Segment {
    Fixed(String),
    One(String),
    Rest(String),
}

impl Segment {
    fn name(&self) -> Option<&String> {
        match self {
            Self::Fixed(_) => None,
            Self::One(name) | Self::Rest(name) => Some(name),
        }
    }
}

/// A route by a slow and obvious reading; `None` if it cannot be understood.
fn route(pattern: &str) -> Option<Vec<Segment>> {
    // It is a path only: no query, and no character that no path has.
    if pattern.contains(char::is_control) || pattern.contains(['?', '#']) {
        return None;
    }
    let mut segments: Vec<Segment> = Vec::new();
    for text in pattern.strip_prefix('/')?.split('/') {
        if matches!(segments.last(), Some(Segment::Rest(_))) {
            return None;
        }
        if !text.contains(['{', '}']) {
            segments.push(Segment::Fixed(decoded(text)?));
            continue;
        }
        let inner = text.strip_prefix('{')?.strip_suffix('}')?;
        let name = inner.strip_prefix('*').unwrap_or(inner).to_owned();
        let is_known = segments.iter().any(|segment| segment.name() == Some(&name));
        if name.is_empty() || name.contains(['{', '}', '*']) || is_known {
            return None;
        }
        let is_rest = inner.starts_with('*');
        segments.push(if is_rest { Segment::Rest(name) } else { Segment::One(name) });
    }
    Some(segments)
}

/// The values of the first parameters, which have these names.
fn named(route: &[Segment], names: &[&String], path: &str) -> Result<Vec<String>, Refused> {
    let what = |name: &&String| format!("path parameter `{name}`");
    let Some(values) = in_path(route, path) else {
        let first = names.first().map_or("path of the route".to_owned(), what);
        return Err((RefusalKind::KeyMissing, first));
    };
    let malformed = |name| (RefusalKind::KeyInvalid, what(name));
    let values = names.iter().zip(values);
    values.map(|(name, value)| decoded(&value).ok_or_else(|| malformed(name))).collect()
}

/// The values of all parameters, encoded as in the path; `None` if it does not match.
fn in_path(route: &[Segment], path: &str) -> Option<Vec<String>> {
    let path: Vec<_> = path.strip_prefix('/')?.split('/').collect();
    let mut values = Vec::new();
    for (at, segment) in route.iter().enumerate() {
        let here = *path.get(at)?;
        let value = match segment {
            Segment::Fixed(text) if decoded(here).as_ref() == Some(text) => continue,
            Segment::Fixed(_) => return None,
            Segment::One(_) => here.to_owned(),
            Segment::Rest(_) => path[at..].join("/"),
        };
        if value.is_empty() {
            return None;
        }
        values.push(value);
    }
    let takes_rest = matches!(route.last(), Some(Segment::Rest(_)));
    (path.len() <= route.len() || takes_rest).then_some(values)
}

/// A key and its values.
type Keyed = (String, Vec<String>);

/// Why a request is refused, and which value it is about.
type Refused = (RefusalKind, String);

/// Checks that a key has these values, or that the answer says why there is none.
fn checked(made: Result<String, String>, values: Result<Vec<String>, Refused>) -> Option<Keyed> {
    let (key, values) = match (made, values) {
        (Ok(key), Ok(values)) => (key, values),
        (Err(answer), Err((kind, what))) => {
            let is_told = answer.contains(kind.name()) && answer.contains(&what);
            assert!(is_told, "{answer} for {kind:?}, {what}");
            return None;
        }
        (made, values) => panic!("made {made:?} of {values:?}"),
    };
    let fields: Vec<_> = key.split(':').skip(1).collect();
    assert_eq!(fields.len(), values.len(), "{key:?} of {values:?}");
    for (field, value) in fields.iter().zip(&values) {
        let is_shortened = field.contains("%~");
        assert!(is_shortened || decoded(field).as_ref() == Some(value), "{field:?} of {value:?}");
    }
    Some((key, values))
}

fn check_distinct(made: &[Option<Keyed>; 2]) {
    if let [Some((one, its)), Some((other, others))] = made {
        assert_eq!(one == other, its == others, "{one:?} of {its:?}, {other:?} of {others:?}");
    }
}
