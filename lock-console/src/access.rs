//! Who may use the console: the bearer token, its cookie, and the token against forged requests.

use std::sync::Arc;

use axum::Form;
use axum::Json;
use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::json;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::Console;
use crate::page::{LOGIN, at};

/// The cookie of a browser that has given the token.
const COOKIE: &str = "lock_console";

pub(crate) struct Access {
    token: Option<String>,
    /// What the cookie says; never the token itself.
    session: String,
    /// What a request that changes something must repeat: another site can send requests, and cannot read answers.
    csrf: String,
    /// The hosts that requests may name; any if there are none.
    hosts: Vec<String>,
}

impl Access {
    pub(crate) fn new(token: Option<String>, hosts: Vec<String>) -> Self {
        let secret = || format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { token, session: secret(), csrf: secret(), hosts }
    }

    fn is_for_us(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let host = authority(headers, uri).map(without_port);
        let is_ours = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        self.hosts.is_empty() || host.is_some_and(is_ours)
    }

    fn lets_in(&self, headers: &HeaderMap) -> bool {
        if self.token.is_none() {
            return true;
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(bearer);
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            cookies.flat_map(|all| all.split(';')).filter_map(|one| one.trim().split_once('='));
        bearer.is_some_and(|given| self.is_token(given))
            || cookies.any(|(name, value)| name == COOKIE && are_equal(value, &self.session))
    }

    /// True if a viewer has given the token. An empty one, as a missing setting leaves it, lets no viewer in.
    fn is_token(&self, given: &str) -> bool {
        let token = self.token.as_deref().filter(|token| !token.trim().is_empty());
        token.is_some_and(|token| are_equal(given, token))
    }

    /// True if the request comes from the console's own page.
    pub(crate) fn is_own(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let csrf = text("x-csrf-token").is_some_and(|given| are_equal(given, &self.csrf));
        let is_own_page = match (text("sec-fetch-site"), text("origin")) {
            // No page can set it, and it is right behind a proxy that names another host.
            (Some(site), _) => site == "same-origin",
            // A browser that does not send it sends the origin with each POST.
            (None, Some(origin)) => {
                let host = origin.split_once("://").map_or(origin, |(_, host)| host);
                authority(headers, uri).is_some_and(|own| own.eq_ignore_ascii_case(host))
            }
            // Other programs need to have none.
            (None, None) => true,
        };
        csrf && is_own_page
    }
}

/// The token in the value of the header `Authorization`. The name of the scheme has no case.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

/// The host and port that a request names: in a header, or with HTTP/2 in its address.
fn authority<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let header = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| uri.authority().map(http::uri::Authority::as_str))
}

/// `[::1]` of `[::1]:7379`, and `localhost` of `localhost.:7379`.
fn without_port(authority: &str) -> &str {
    let host = match authority.find(']') {
        Some(end) => authority.get(..=end),
        None => authority.split(':').next(),
    };
    host.unwrap_or_default().trim_end_matches('.')
}

/// Refuses requests that name another host.
pub(crate) async fn check_host(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    if console.access.is_for_us(request.headers(), request.uri()) {
        return next.run(request).await;
    }
    let error =
        json!({ "error": "the console does not answer for this host; add it to its hosts" });
    (StatusCode::FORBIDDEN, Json(error)).into_response()
}

fn are_equal(given: &str, expected: &str) -> bool {
    given.as_bytes().ct_eq(expected.as_bytes()).into()
}

/// Lets only those in who have the token.
pub(crate) async fn guard(
    State(console): State<Arc<Console>>,
    OriginalUri(uri): OriginalUri,
    request: Request,
    next: Next,
) -> Response {
    if console.access.lets_in(request.headers()) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    match request.uri().path() == "/" {
        true => (StatusCode::UNAUTHORIZED, challenge, at(LOGIN, uri.path())).into_response(),
        false => {
            let error =
                json!({ "error": "the console wants its token, as `Authorization: Bearer …`" });
            (StatusCode::UNAUTHORIZED, challenge, Json(error)).into_response()
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Login {
    token: String,
}

/// Gives a browser the cookie for the token.
pub(crate) async fn login(
    State(console): State<Arc<Console>>,
    OriginalUri(uri): OriginalUri,
    Form(login): Form<Login>,
) -> Response {
    let page = uri.path().strip_suffix("/login").unwrap_or_default();
    if !console.access.is_token(&login.token) {
        return (StatusCode::UNAUTHORIZED, at(LOGIN, "/")).into_response();
    }
    let cookie = format!("{COOKIE}={}; HttpOnly; SameSite=Strict", console.access.session);
    // Relative, because a proxy may have put more before the path.
    let to = match page.rsplit_once('/') {
        Some((_, last)) => format!("../{last}"),
        None => "./".to_owned(),
    };
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

/// What the page may do.
pub(crate) async fn session(State(console): State<Arc<Console>>) -> impl IntoResponse {
    Json(json!({ "allow_release": console.allow_release, "csrf": console.access.csrf }))
}
