//! What messages about a configuration leave out: passwords, which addresses have in them.
//!
//! Parsers and serde quote what they found. In the place of an address, that is never shown; in any other
//! place, and in names, only what cannot be a part of an address.

/// What stands for text that is not shown.
const HIDDEN: char = '…';

/// True for the path of an address.
pub(super) fn in_address(path: &str) -> bool {
    let field = path.strip_prefix("lock.").and_then(|rest| rest.split(['.', '[']).next());
    matches!(field, Some("url" | "cluster" | "sentinel" | "quorum"))
}

/// True for a name that may be a part of an address.
pub(super) fn is_odd_name(name: &str) -> bool {
    !name.chars().all(is_harmless)
}

/// True for a text with colons and slashes of its own that may be a part of an address: a template has
/// neither `@` nor `//`, and begins with no colon.
fn may_be_secret(text: &str) -> bool {
    text.contains(['@', '\\']) || text.contains("//") || text.starts_with(':')
}

/// The text in quotes, or a sign that it is left out.
pub(super) fn quoted(text: &str) -> String {
    if may_be_secret(text) { format!("\"{HIDDEN}\"") } else { format!("{text:?}") }
}

/// The name, or a sign that it is left out.
pub(super) fn shown(name: &str) -> &str {
    if is_odd_name(name) { "…" } else { name }
}

/// True for what is in no address: a word, a number, a duration, a list.
fn is_harmless(c: char) -> bool {
    c.is_alphanumeric() || " -_.*+,;()[]{}'\"`".contains(c)
}

/// What a parser or serde says, without values that may be secret: those of an address, all of them.
pub(super) fn without_secrets(said: &str, of_address: bool) -> String {
    // Figment repeats the path, with names as they are.
    let said = said.split(" for key \"").next().unwrap_or_default();
    // What was expected is ours, and comes last.
    let end = said.rfind(", expected ").unwrap_or(said.len());
    let (found, expected) = said.split_at(end);
    let quote = found.find(['"', '`']);
    let (before, value) = found.split_at(quote.unwrap_or(found.len()));
    if may_be_secret(before) {
        return format!("it cannot be read{expected}");
    }
    // An unknown name beside the address is no value, and "missing" and "duplicate" speak of fields.
    let is_value = before.contains("invalid");
    match value.chars().next() {
        None if of_address && is_value => {
            // Numbers, of parsers that do not quote them.
            let digits = |c: char| c.is_ascii_digit() || c == '-';
            format!("{}{expected}", before.trim_end_matches(digits).trim_end())
        }
        None => said.to_owned(),
        Some(_) if of_address && is_value => format!("{}{expected}", before.trim_end()),
        Some(_) if value.chars().all(is_harmless) => said.to_owned(),
        Some(quote) => format!("{before}{quote}{HIDDEN}{quote}{expected}"),
    }
}

/// What is said and, of TOML, where. TOML draws the line too, which may have a password in it.
pub(super) fn undrawn(message: &str) -> (String, String) {
    let drawn = |line: &&str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|')
    };
    let lines = message.lines().filter(|line| !line.trim().is_empty() && !drawn(line));
    let lines: Vec<_> = lines.map(str::trim).collect();
    match &lines[..] {
        [place, said @ ..] if !said.is_empty() => {
            match place.strip_prefix("TOML parse error at ") {
                Some(place) => (said.join(" "), format!(" ({place})")),
                None => (lines.join(" "), String::new()),
            }
        }
        lines => (lines.join(" "), String::new()),
    }
}
