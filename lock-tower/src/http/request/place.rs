//! What axum's router has stored in a request.

use http::Extensions;

/// Returns the path as the client sent it, which a nested router has stored.
#[cfg(feature = "axum-08")]
pub(crate) fn full_path_of(extensions: &Extensions) -> Option<&str> {
    extensions.get::<axum::extract::OriginalUri>().map(|uri| uri.0.path())
}

/// Returns the pattern of the route that the router has matched, with the prefixes of nested routers.
#[cfg(feature = "axum-08")]
pub(crate) fn matched_path(extensions: &Extensions) -> Option<&str> {
    let matched = extensions.get::<axum::extract::MatchedPath>()?.as_str();
    // So axum marks a nested service whose own router has not matched yet.
    (!matched.contains("{*__private__")).then_some(matched)
}

/// True if the request has gone through a router, and no route matched it.
#[cfg(feature = "axum-08")]
pub(crate) fn is_unmatched(extensions: &Extensions) -> bool {
    extensions.get::<axum::extract::MatchedPath>().is_none() && full_path_of(extensions).is_some()
}

#[cfg(not(feature = "axum-08"))]
pub(crate) fn full_path_of(_: &Extensions) -> Option<&str> {
    None
}

#[cfg(not(feature = "axum-08"))]
pub(crate) fn matched_path(_: &Extensions) -> Option<&str> {
    None
}

#[cfg(not(feature = "axum-08"))]
pub(crate) fn is_unmatched(_: &Extensions) -> bool {
    false
}
