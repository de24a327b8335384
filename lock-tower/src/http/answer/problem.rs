//! Refusals as problem details (RFC 9457).

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response};

use crate::http::answer::response::LockResponse;

pub(crate) fn respond(refusal: &LockResponse) -> Response<Bytes> {
    let (name, title) = (refusal.kind.name(), refusal.kind.title());
    let status = refusal.status.as_u16();
    let mut json = format!(r#"{{"type":"/problems/{name}","title":"{title}","status":{status}"#);
    if let Some(detail) = &refusal.detail {
        json.push_str(r#","detail":"#);
        push_json_string(&mut json, detail);
    }
    if refusal.unexecuted {
        json.push_str(r#","executed":false"#);
    }
    json.push('}');

    let mut response = Response::new(Bytes::from(json));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(retry_after) = refusal.retry_after {
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
