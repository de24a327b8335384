//! What axum's router has stored in a request; nothing without the feature `axum-08`.

#[cfg(feature = "axum-08")]
pub(crate) use self::with_axum::*;
#[cfg(not(feature = "axum-08"))]
pub(crate) use self::without_axum::*;

#[cfg(feature = "axum-08")]
mod with_axum {
    use axum::Router;
    use axum::body::Body;
    use axum::extract::rejection::RawPathParamsRejection;
    use axum::extract::{FromRequestParts as _, MatchedPath, OriginalUri, RawPathParams};
    use axum::routing::get;
    use futures_util::FutureExt as _;
    use http::request::Parts;
    use http::{Extensions, Request, StatusCode};
    use tower_service::Service as _;

    use crate::http::error::KeyError;

    /// Returns the path as the client sent it, which a nested router has stored.
    pub(crate) fn full_path_of(extensions: &Extensions) -> Option<&str> {
        extensions.get::<OriginalUri>().map(|uri| uri.0.path())
    }

    /// Returns the pattern of the route that the router has matched, with the prefixes of nested routers.
    pub(crate) fn matched_path(extensions: &Extensions) -> Option<&str> {
        let matched = extensions.get::<MatchedPath>()?.as_str();
        // So axum marks a nested service whose own router has not matched yet.
        (!matched.contains("{*__private__")).then_some(matched)
    }

    /// True if the request has gone through a router, and no route matched it.
    pub(crate) fn is_unmatched(extensions: &Extensions) -> bool {
        let has_no_pattern = extensions.get::<MatchedPath>().is_none();
        has_no_pattern && full_path_of(extensions).is_some() && !is_for_a_nested_service(extensions)
    }

    /// True if the router has matched a nested service. It says so only to routers below, whose patterns then begin with its
    /// prefix, so one is asked.
    fn is_for_a_nested_service(extensions: &Extensions) -> bool {
        let below = async |path: MatchedPath| match path.as_str() {
            "/" => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
        let mut request = Request::new(Body::empty());
        *request.extensions_mut() = extensions.clone();
        let answer = Router::<()>::new().route("/", get(below)).call(request).now_or_never();
        answer.is_some_and(|Ok(answer)| answer.status() == StatusCode::OK)
    }

    /// Returns a path parameter, which the router has stored for its extractors.
    pub(crate) fn router_value(parts: &mut Parts, name: &str) -> Result<Option<String>, KeyError> {
        // The extractor's signature is asynchronous, but it only reads an extension and is ready at once.
        match RawPathParams::from_request_parts(parts, &()).now_or_never() {
            // If nested routers use a name twice, the innermost router's value counts.
            Some(Ok(values)) => {
                let value = values.iter().filter(|(key, _)| *key == name).last();
                Ok(value.map(|(_, value)| value.to_owned()))
            }
            Some(Err(RawPathParamsRejection::InvalidUtf8InPathParam(_))) => {
                let problem = "is not UTF-8".to_owned();
                Err(KeyError::Malformed { what: "path".to_owned(), problem })
            }
            Some(Err(_)) | None => Ok(None),
        }
    }
}

#[cfg(not(feature = "axum-08"))]
mod without_axum {
    use http::Extensions;
    use http::request::Parts;

    use crate::http::error::KeyError;

    pub(crate) fn full_path_of(_: &Extensions) -> Option<&str> {
        None
    }

    pub(crate) fn matched_path(_: &Extensions) -> Option<&str> {
        None
    }

    pub(crate) fn is_unmatched(_: &Extensions) -> bool {
        false
    }

    pub(crate) fn router_value(_: &mut Parts, _: &str) -> Result<Option<String>, KeyError> {
        // The builder refuses a template that needs a router.
        Ok(None)
    }
}
