//! Names with `*`, each of which matches any text.

/// True if `pattern` matches all of `name`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // The shortest match of each part leaves the most text to the next.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Returns how much of a name the pattern fixes: the more, the closer its match.
pub(super) fn weight(pattern: &str) -> usize {
    pattern.chars().filter(|c| *c != '*').count()
}

/// True if some name matches both patterns.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    ends_agree(one, other) && common_text(one, other)
}

/// Decides most pairs at once: compares the text before the first star and after the last.
fn ends_agree(one: &str, other: &str) -> bool {
    let [one_head, other_head] = [one, other].map(|it| it.split('*').next().unwrap_or_default());
    let [one_tail, other_tail] = [one, other].map(|it| it.rsplit('*').next().unwrap_or_default());
    (one_head.starts_with(other_head) || other_head.starts_with(one_head))
        && (one_tail.ends_with(other_tail) || other_tail.ends_with(one_tail))
}

fn common_text(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // `reached[j]`: the first `i` of `one` and the first `j` of `other` match some common text.
    let mut reached = vec![false; other.len() + 1];
    reached[0] = true;
    for (j, c) in other.iter().enumerate() {
        reached[j + 1] = reached[j] && *c == '*';
    }
    for a in &one {
        let mut next = vec![false; other.len() + 1];
        next[0] = reached[0] && *a == '*';
        for (j, b) in other.iter().enumerate() {
            next[j + 1] = match (a, b) {
                // A star ends here, or matches one more character of the other side.
                ('*', _) | (_, '*') => reached[j + 1] || next[j],
                (a, b) => a == b && reached[j],
            };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}
