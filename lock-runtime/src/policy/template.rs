//! Braces of key templates and route paths, as far as they can be checked without a request.

/// What is wrong with a key template.
pub(super) fn problem(template: &str) -> Option<&'static str> {
    if template.is_empty() {
        return Some(r#"is empty; give the lock a name, such as "order:{path.id}""#);
    }
    if template.contains(char::is_control) {
        return Some("contains a control character, which no key may; take it out");
    }
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (brace, tail) = rest[at..].split_at(1);
        rest = if let Some(tail) = tail.strip_prefix(brace) {
            tail
        } else if brace == "}" {
            return Some("has a `}` that closes nothing; write `}}` for a brace of the key");
        } else {
            match tail.split_once('}') {
                None => return Some(UNCLOSED),
                Some((hole, _)) if hole.contains('{') => return Some(UNCLOSED),
                Some((hole, _)) if hole.trim().is_empty() => {
                    return Some("has a `{}` that names nothing; write `{path.id}` or the like");
                }
                Some((_, tail)) => tail,
            }
        };
    }
    None
}

const UNCLOSED: &str = "has a `{` that is never closed; write `{{` for a brace of the key";

/// What is wrong with a route's path.
pub(super) fn path_problem(path: &str) -> Option<&'static str> {
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
