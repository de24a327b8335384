//! The parts of gRPC over HTTP/2 that the layer needs: the content type, the deadline, and trailers-only
//! answers.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::http::refusal_kind::RefusalKind;
use crate::http::response::LockResponse;

/// True if the request is a gRPC call.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return false };
    let rest = content_type.as_bytes().strip_prefix(b"application/grpc");
    // The answers of `grpc-web` have bodies, so it does not count.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Returns how long the client waits for the answer, from its `grpc-timeout`.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// The header with the milliseconds after which the client may retry.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Returns the refusal's `google.rpc.Code`.
fn code(refusal: &LockResponse) -> u8 {
    const CANCELLED: u8 = 1;
    const INVALID_ARGUMENT: u8 = 3;
    const DEADLINE_EXCEEDED: u8 = 4;
    const RESOURCE_EXHAUSTED: u8 = 8;
    const FAILED_PRECONDITION: u8 = 9;
    const ABORTED: u8 = 10;
    const INTERNAL: u8 = 13;
    const UNAVAILABLE: u8 = 14;
    match refusal.kind {
        _ if refusal.status == StatusCode::TOO_MANY_REQUESTS => RESOURCE_EXHAUSTED,
        RefusalKind::Busy if refusal.status == StatusCode::LOCKED => FAILED_PRECONDITION,
        RefusalKind::Busy if refusal.status == StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        RefusalKind::Busy => ABORTED,
        RefusalKind::Timeout | RefusalKind::Overloaded | RefusalKind::Unavailable => UNAVAILABLE,
        RefusalKind::Deadline => DEADLINE_EXCEEDED,
        RefusalKind::KeyMissing | RefusalKind::KeyInvalid => INVALID_ARGUMENT,
        RefusalKind::BodyIncomplete => CANCELLED,
        RefusalKind::Lost | RefusalKind::Misconfigured => INTERNAL,
    }
}

/// Returns the text of `grpc-message`.
fn message(refusal: &LockResponse) -> &str {
    refusal.detail.as_deref().unwrap_or_else(|| refusal.kind.title())
}

/// Returns the value of [`PUSHBACK`], if a retry can succeed.
fn pushback_millis(refusal: &LockResponse) -> Option<u64> {
    let retry_after = refusal.retry_after?;
    Some(u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX))
}

/// Returns an answer without a body, whose headers are the trailers.
pub(crate) fn respond(refusal: &LockResponse) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", u32::from(code(refusal)).into());
    headers.insert("grpc-message", percent_encoded(message(refusal)));
    if let Some(millis) = pushback_millis(refusal) {
        headers.insert(PUSHBACK, millis.into());
    }
    response
}

/// Encodes a `grpc-message`: printable ASCII except `%` stays, everything else becomes hex.
fn percent_encoded(text: &str) -> HeaderValue {
    const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

    let encoded = utf8_percent_encode(text, ESCAPED).to_string();
    HeaderValue::try_from(encoded).unwrap_or(HeaderValue::from_static(""))
}

/// The status with which the layer answers gRPC requests: code, message and, if the client may send the
/// same request again, `grpc-retry-pushback-ms` in the metadata.
///
/// # Examples
///
/// A responder that adds metadata:
///
/// ```
/// use http::request::Parts;
/// use lock_tower::LockLayer;
/// use lock_tower::http::LockResponse;
/// use tonic::Status;
/// use tonic::metadata::MetadataValue;
///
/// let layer = LockLayer::http().key("{header.x-order}").responder(|refusal: LockResponse, _: &Parts| {
///     if !refusal.is_grpc() {
///         return refusal.into_http();
///     }
///     let mut status = Status::from(&refusal);
///     let reason = MetadataValue::from_static(refusal.kind().name());
///     status.metadata_mut().insert("x-reason", reason);
///     status.into_http()
/// }).build()?;
/// # let _ = layer;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[cfg(feature = "tonic-014")]
impl From<&LockResponse> for tonic::Status {
    fn from(refusal: &LockResponse) -> Self {
        let code = tonic::Code::from_i32(i32::from(code(refusal)));
        let mut status = Self::new(code, message(refusal));
        if let Some(millis) = pushback_millis(refusal) {
            status.metadata_mut().insert(PUSHBACK, millis.into());
        }
        status
    }
}

/// Returns the status that the layer would send for this error, for handlers that lock by themselves. It is the function
/// for `map_err = status_of` of an annotated function that returns statuses.
///
/// The [codes](crate::http#answers) are the layer's. The message reveals no more than the layer's: the key
/// and the rest of the error go into the log. If the client may send the same call again,
/// `grpc-retry-pushback-ms` asks for one second, or for two if the store fails, plus up to a quarter of
/// random jitter.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, distributed_lock};
/// use lock_tower::http::status_of;
/// use tonic::{Code, Request, Response, Status};
///
/// struct Orders {
///     locks: LockClient,
/// }
///
/// impl Orders {
///     // As in the service's trait.
///     #[distributed_lock(
///         key = "order:{request.get_ref()}",
///         wait = none,
///         client = self.locks,
///         map_err = status_of
///     )]
///     async fn pay(&self, request: Request<u64>) -> Result<Response<u64>, Status> {
///         let cents = request.into_inner().checked_mul(100);
///         Ok(Response::new(cents.ok_or_else(|| Status::not_found("no such order"))?))
///     }
/// }
///
/// let orders = Orders { locks: LockClient::in_memory() };
/// assert_eq!(orders.pay(Request::new(42)).await?.into_inner(), 4200);
/// let none = orders.pay(Request::new(u64::MAX)).await.unwrap_err();
/// assert_eq!(none.code(), Code::NotFound);
/// let _other = orders.locks.mutex("order:42").lock().await?;
/// let refused = orders.pay(Request::new(42)).await.unwrap_err();
/// assert_eq!(refused.code(), Code::Aborted);
/// assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "tonic-014")]
#[must_use]
pub fn status_of(error: impl std::borrow::Borrow<lock_runtime::LockError>) -> tonic::Status {
    tonic::Status::from(&LockResponse::from(error.borrow()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))])
    }

    #[test]
    fn content_types_are_told_apart() {
        for (value, grpc) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=1", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&headers("content-type", value)), grpc, "{value}");
        }
    }

    #[test]
    fn timeouts_have_units() {
        for (value, expected) in [
            ("2S", Some(Duration::from_secs(2))),
            ("100m", Some(Duration::from_millis(100))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("5u", Some(Duration::from_micros(5))),
            ("5n", Some(Duration::from_nanos(5))),
            ("1M", Some(Duration::from_secs(60))),
            ("123456789S", None),
            ("S", None),
            ("+1S", None),
            ("1", None),
            ("", None),
            ("1x", None),
        ] {
            assert_eq!(timeout(&headers("grpc-timeout", value)), expected, "{value}");
        }
    }

    #[test]
    fn messages_are_encoded() {
        assert_eq!(percent_encoded("100% ü\n"), "100%25 %C3%BC%0A");
    }
}
