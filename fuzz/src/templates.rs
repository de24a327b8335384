//! Key templates.

use lock_runtime::LockKey;
use lock_runtime::policy::LockConfig;
use lock_syntax::template::{Part, Segment, parse, unseparated};

use crate::input::{parts, text};

/// A template can be written again from what was parsed; it never makes one name of different values; the
/// check of a configuration refuses what cannot be parsed, and names without a meaning for requests.
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
    let problem = template_problem(&template);
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

/// Returns the problem of a key template in a configuration.
fn template_problem(template: &str) -> Option<String> {
    let text = serde_json::json!({ "lock": { "policies": { "p": { "key": template } } } });
    let config = LockConfig::from_deserializer(text).expect("only layers read keys");
    lock_tower::http::check(&config).err().map(|error| error.to_string())
}
