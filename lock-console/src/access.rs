//! Who may use the console: the bearer token, its cookie, and the token against forged requests.

use std::sync::Arc;

use axum::Form;
use axum::Json;
use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, StatusCode, header};
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
}

impl Access {
    pub(crate) fn new(token: Option<String>) -> Self {
        let secret = || format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { token, session: secret(), csrf: secret() }
    }

    fn lets_in(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            cookies.flat_map(|all| all.split(';')).filter_map(|one| one.trim().split_once('='));
        bearer.is_some_and(|given| are_equal(given, token))
            || cookies.any(|(name, value)| name == COOKIE && are_equal(value, &self.session))
    }

    /// True if the request comes from the console's own page.
    pub(crate) fn is_own(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let csrf = text("x-csrf-token").is_some_and(|given| are_equal(given, &self.csrf));
        let site = text("sec-fetch-site").is_none_or(|site| site == "same-origin");
        // A browser sends the origin with each POST; other programs need not have one.
        let origin = text("origin").is_none_or(|origin| {
            let host = origin.split_once("://").map_or(origin, |(_, host)| host);
            text("host").is_some_and(|own| own.eq_ignore_ascii_case(host))
        });
        csrf && site && origin
    }
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
    let token = console.access.token.as_ref();
    if !token.is_some_and(|token| are_equal(&login.token, token)) {
        return (StatusCode::UNAUTHORIZED, at(LOGIN, page)).into_response();
    }
    let cookie = format!("{COOKIE}={}; HttpOnly; SameSite=Strict", console.access.session);
    ([(header::SET_COOKIE, cookie)], Redirect::to(if page.is_empty() { "/" } else { page }))
        .into_response()
}

/// What the page may do.
pub(crate) async fn session(State(console): State<Arc<Console>>) -> impl IntoResponse {
    Json(json!({ "allow_release": console.allow_release, "csrf": console.access.csrf }))
}
