//! Checks the braces of key templates and route paths, as far as possible without a request.

use lock_syntax::template::{BraceProblem, Segment, parse};

/// Returns the problem of a key template.
pub(crate) fn problem(template: &str) -> Option<&'static str> {
    if template.is_empty() {
        return Some(r#"is empty; give the lock a name, such as "order:{path.id}""#);
    }
    if template.contains(char::is_control) {
        return Some("contains a control character, which no key may; take it out");
    }
    let nameless = |segment: &Segment<'_>| matches!(segment, Segment::Placeholder(name) if name.trim().is_empty());
    match parse(template) {
        Err(BraceProblem::Unclosed) => {
            Some("has a `{` that is never closed; write `{{` for a brace of the key")
        }
        Err(BraceProblem::Unopened) => {
            Some("has a `}` that closes nothing; write `}}` for a brace of the key")
        }
        Ok(segments) if segments.iter().any(nameless) => {
            Some("has a `{}` that names nothing; write `{path.id}` or the like")
        }
        Ok(_) => None,
    }
}

/// Returns the problem of a route's path.
pub(crate) fn path_problem(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some(
            "does not start with `/`; write it as in the router, such as \"/orders/{id}\"",
        );
    }
    if path.contains(['?', '#']) {
        return Some("has a query; a route is a path only, take it out");
    }
    problem(path)
}
