//! [`RefusalResponder`]: how a refusal looks to the client.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response};

use crate::http::answer::grpc;
use crate::http::answer::refusal::Refusal;

/// Makes the answer to a request that the layer refuses.
///
/// Closures implement it. Call [`ProblemDetails`] for the refusals that you do not answer yourself. Mark
/// the answers as not cacheable.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use http::Response;
/// use lock_tower::LockLayer;
/// use lock_tower::http::{RefusalResponder, ProblemDetails, Refusal, RefusalKind};
///
/// let layer = LockLayer::http().key("nightly").responder(|refusal: &Refusal| {
///     if refusal.is_grpc() || refusal.kind() != RefusalKind::Busy {
///         return ProblemDetails.respond(refusal);
///     }
///     let mut response = Response::new(Bytes::from_static(b"<h1>One moment, please</h1>"));
///     *response.status_mut() = refusal.status();
///     response
/// }).build()?;
/// # let _ = layer;
/// # Ok::<_, lock_tower::http::BuildError>(())
/// ```
pub trait RefusalResponder: Send + Sync + 'static {
    /// Returns the answer to a request that the layer refuses.
    fn respond(&self, refusal: &Refusal) -> Response<Bytes>;
}

impl<F> RefusalResponder for F
where
    F: Fn(&Refusal) -> Response<Bytes> + Send + Sync + 'static,
{
    fn respond(&self, refusal: &Refusal) -> Response<Bytes> {
        self(refusal)
    }
}

/// The default responder: problem details (RFC 9457), and trailers-only answers for gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProblemDetails;

impl RefusalResponder for ProblemDetails {
    fn respond(&self, refusal: &Refusal) -> Response<Bytes> {
        if refusal.is_grpc() { grpc::respond(refusal) } else { problem(refusal) }
    }
}

fn problem(refusal: &Refusal) -> Response<Bytes> {
    let (name, title) = (refusal.kind().name(), refusal.kind().title());
    let status = refusal.status().as_u16();
    let mut json = format!(r#"{{"type":"/problems/{name}","title":"{title}","status":{status}"#);
    if let Some(detail) = refusal.detail() {
        json.push_str(r#","detail":"#);
        push_json_string(&mut json, detail);
    }
    if refusal.is_unexecuted() {
        json.push_str(r#","executed":false"#);
    }
    json.push('}');

    let mut response = Response::new(Bytes::from(json));
    *response.status_mut() = refusal.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(retry_after) = refusal.retry_after() {
        headers.insert(RETRY_AFTER, retry_after.as_secs().into());
    }
    response
}

fn push_json_string(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let mut json = String::new();
        push_json_string(&mut json, "a \"b\" \\ \n ü");
        assert_eq!(json, r#""a \"b\" \\ \u000a ü""#);
    }
}
