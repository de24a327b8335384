//! Key templates and the patterns of policies.

use lock_runtime::LockKey;
use lock_runtime::fuzz;
use lock_syntax::template::{Part, Segment, parse, unseparated};

use crate::input::{parts, text};

/// A template can be written again from what was parsed; it never makes one name of different values; the
/// configuration refuses what cannot be parsed, and names without a meaning for requests.
pub fn key_template(input: &[u8]) {
    let words: &[&str] = &[
        "{a}",
        "{b}",
        "{",
        "}",
        "{{",
        "}}",
        ":",
        "{path.id}",
        "{path.id:u64}",
        "{header.x:uuid}",
        "{}",
        "{ }",
        "%",
        "-",
        "\n",
        "ü",
        "order",
        "{header.x}",
        "{route}",
        "{ext.",
        "{query.a b}",
    ];
    let [template, one, other] = parts(input);
    let template = text(template, words);
    let parsed = parse(&template);
    let problem = fuzz::template_problem(&template);
    let Ok(segments) = parsed else {
        return assert!(problem.is_some(), "{template:?}");
    };
    assert_eq!(written(&segments), template);
    let names: Vec<_> = segments.iter().filter_map(name).collect();
    let is_value = |name: &&str| {
        let with_name =
            ["path.", "query.", "header.", "ext."].map(|start| name.strip_prefix(start));
        let has_name = with_name.into_iter().flatten().any(|name| !name.is_empty());
        matches!(*name, "method" | "route") || has_name
    };
    let is_wrong =
        template.is_empty() || template.contains(char::is_control) || !names.iter().all(is_value);
    assert!(problem.is_some() || !is_wrong, "{template:?}");
    let neighbours = segments.iter().map(|segment| match segment {
        Segment::Text(text) => Part::Text(text.as_str()),
        Segment::Placeholder(name) => Part::Escaped(*name),
    });
    if unseparated(neighbours).is_some() {
        return assert!(problem.is_some(), "{template:?}");
    }
    let (one, other) = (text(one, words), text(other, words));
    let differ = (0..names.len()).any(|at| {
        let is_first = !names[..at].contains(&names[at]);
        is_first && value(&one, at) != value(&other, at)
    });
    let made = [&one, &other].map(|values| filled(&segments, &names, values));
    if let [Some(one), Some(other)] = &made
        && differ
    {
        assert_ne!(one, other, "{template:?}");
    }
}

fn name<'a>(segment: &Segment<'a>) -> Option<&'a str> {
    match segment {
        Segment::Placeholder(name) => Some(name),
        Segment::Text(_) => None,
    }
}

/// The template with these parts.
fn written(segments: &[Segment<'_>]) -> String {
    let write = |segment: &Segment<'_>| match segment {
        Segment::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Segment::Placeholder(name) => format!("{{{name}}}"),
    };
    segments.iter().map(write).collect()
}

/// The value of placeholder number `at`: one of the words of `values`.
fn value(values: &str, at: usize) -> &str {
    values.split(',').nth(at).unwrap_or("missing")
}

/// The name that a template makes of these values.
fn filled(segments: &[Segment<'_>], names: &[&str], values: &str) -> Option<LockKey> {
    let builder = segments.iter().fold(LockKey::builder(), |builder, segment| match segment {
        Segment::Text(text) => builder.text(text),
        Segment::Placeholder(name) => {
            let at = names.iter().position(|known| known == name).unwrap_or_default();
            builder.part(value(values, at))
        }
    });
    builder.build().ok()
}

/// A pattern matches what the definition says; two that match one name overlap, in either order.
pub fn patterns(input: &[u8]) {
    let words: &[&str] = &["*", "**", "a", "b", "ab", "tenant-", "-", "ü"];
    let [one, other, name] = parts(input).map(|part| text(&part[..part.len().min(32)], words));
    let [matches_one, matches_other] =
        [&one, &other].map(|pattern| fuzz::pattern_matches(pattern, &name));
    for (pattern, found) in [(&one, matches_one), (&other, matches_other)] {
        let (glob, name): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
        assert_eq!(found, matches(&glob, &name), "{pattern:?} and {name:?}");
    }
    let overlap = fuzz::patterns_overlap(&one, &other);
    assert_eq!(overlap, fuzz::patterns_overlap(&other, &one), "{one:?} {other:?}");
    assert!(overlap || !(matches_one && matches_other), "{one:?} {other:?} {name:?}");
    assert!(fuzz::patterns_overlap(&one, &one), "{one:?} and itself");
}

/// True if the pattern matches: a star stands for any text, everything else for itself.
fn matches(pattern: &[char], name: &[char]) -> bool {
    // `reached[n]`: the pattern so far matches the first `n` characters.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for wanted in pattern {
        let mut next = vec![false; name.len() + 1];
        for at in 0..=name.len() {
            next[at] = match wanted {
                '*' => reached[at] || (at > 0 && next[at - 1]),
                wanted => at > 0 && reached[at - 1] && name[at - 1] == *wanted,
            };
        }
        reached = next;
    }
    reached[name.len()]
}
