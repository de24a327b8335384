//! [`ConfigError`]: what is wrong with a configuration, by path.
//!
//! Parsers and serde quote what they found, and addresses have passwords in them. In the place of an address, messages
//! never show what was found; in any other place, and in names, only what cannot be a part of an address.

use std::fmt;

use lock_syntax::nearest;
use serde_path_to_error::{Path, Segment};

/// Why a configuration is refused: every problem that was found, each with the path to it.
///
/// What is not even of the right type is reported alone, everything else together. Neither a message nor
/// a path shows what may be a password: values of addresses, and names and values that look like one, are
/// written as `…`.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockConfig;
///
/// let text = "[lock.policies.checkout]\nbase = 'strct'\nwait = '0s'\n[lock.base.strict]";
/// let error = LockConfig::from_toml(text).unwrap_err();
/// let problems: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
/// assert_eq!(problems, [
///     "lock.policies.checkout.wait: \"0s\" never waits; write \"none\" to say so",
///     "lock.policies.checkout.base: there is no lock.base.strct; did you mean \"strict\"?",
/// ]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

/// One thing that is wrong with a configuration.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockSection;
///
/// let section: LockSection = toml::from_str("policies.checkout.wait = '0s'")?;
/// let error = section.validate().unwrap_err();
/// assert_eq!(error.problems()[0].path(), "lock.policies.checkout.wait");
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigProblem {
    path: String,
    message: String,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<ConfigProblem>) -> Self {
        Self { problems }
    }

    /// What serde says, with the path to it under `root`.
    pub(super) fn from_serde(
        root: &str,
        error: &serde_path_to_error::Error<impl fmt::Display>,
    ) -> Self {
        let path = path_text(root, error.path());
        let (said, place) = undrawn(&error.inner().to_string());
        let said = without_secrets(&said, in_address(&path));
        let near = suggestion(&said).map(|name| format!("; did you mean `{name}`?"));
        let message = format!("{said}{}{place}", near.unwrap_or_default());
        Self::new(vec![ConfigProblem { path, message }])
    }

    /// What a parser says of a text that it cannot read.
    #[cfg(any(feature = "toml", feature = "figment"))]
    pub(super) fn unreadable(what: &str, error: &impl fmt::Display) -> Self {
        let (said, place) = undrawn(&error.to_string());
        let said = without_secrets(&said, false);
        Self::new(vec![ConfigProblem::new("", format!("{what}: {said}{place}"))])
    }

    /// The same, with where the value at each path comes from.
    #[cfg(feature = "figment")]
    pub(super) fn with_sources(mut self, source: impl Fn(&str) -> Option<String>) -> Self {
        for problem in &mut self.problems {
            if let Some(source) = source(&problem.path)
                && !problem.message.ends_with(&source)
            {
                problem.message = format!("{} in {source}", problem.message);
            }
        }
        self
    }

    /// The problems, never none.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl ConfigProblem {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// Where it is, such as `lock.policies.checkout.wait`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there and what was expected.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// `under.name`, quoted where a dot or a space would mislead.
pub(super) fn join(under: &str, name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '*');
    let quoted = name.is_empty() || !name.chars().all(plain);
    match (under, quoted) {
        _ if is_odd_name(name) => format!("{under}.…").trim_start_matches('.').to_owned(),
        ("", _) => name.to_owned(),
        (under, true) => format!("{under}.{name:?}"),
        (under, false) => format!("{under}.{name}"),
    }
}

fn path_text(root: &str, path: &Path) -> String {
    path.iter().fold(root.to_owned(), |text, segment| match segment {
        Segment::Seq { index } => format!("{text}[{index}]"),
        Segment::Map { key } => join(&text, key),
        Segment::Enum { .. } | Segment::Unknown => text,
    })
}

/// The known name that an unknown one was meant to be: serde names them all, in backticks.
fn suggestion(message: &str) -> Option<&str> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let found = names.next()?;
    nearest(found, names)
}

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
