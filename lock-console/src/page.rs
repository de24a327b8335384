//! The page: files of ours, compiled in.

use axum::extract::OriginalUri;
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};

/// Nothing but this page's own files and requests: no inline scripts, no other host, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

pub(crate) const PAGE: &str = include_str!("../assets/console.html");
pub(crate) const STYLE: &str = include_str!("../assets/console.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/console.js");

/// The form that asks for the token.
pub(crate) const LOGIN: &str = include_str!("../assets/login.html");

/// The page, wherever the console is nested.
pub(crate) async fn page(OriginalUri(uri): OriginalUri) -> Html<String> {
    at(PAGE, uri.path())
}

/// A page whose files and requests are below this path. The page names them relative to its own address, because a proxy may
/// have put more before the path.
pub(crate) fn at(page: &str, path: &str) -> Html<String> {
    let last = path.rsplit('/').next().unwrap_or_default();
    let last = last.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let base = if last.is_empty() { ".".to_owned() } else { format!("./{last}") };
    Html(page.replace("{base}", &base))
}

pub(crate) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

pub(crate) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT)
}

/// Adds what every answer has.
pub(crate) async fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_relative_to_the_page() {
        for (path, base) in [
            ("/", "."),
            ("/admin/locks", "./locks"),
            ("/admin/locks/", "."),
            ("/a:b", "./a:b"),
            ("/a\"b&c", "./a&quot;b&amp;c"),
        ] {
            assert_eq!(at("{base}", path).0, base, "{path}");
        }
    }

    /// It opens fast over a slow line, and needs no build.
    #[test]
    fn the_page_is_small() {
        let bytes = PAGE.len() + STYLE.len() + SCRIPT.len() + LOGIN.len();
        assert!(bytes < 60 * 1024, "{bytes} bytes");
        assert!(!PAGE.contains("style=") && !PAGE.contains("onclick"), "the policy forbids it");
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("outerHTML"), "names are text");
    }
}
