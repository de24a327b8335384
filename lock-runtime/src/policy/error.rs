//! [`ConfigError`]: the problems of a configuration, by path.
//!
//! Parsers and serde quote the text that they read, and addresses contain passwords. For an address, messages
//! never show the text; for other values, and in names, they show only text that cannot be part of an address.

use std::fmt;

use lock_syntax::nearest;
use serde_path_to_error::{Path, Segment};

/// Why a configuration is refused: every problem, each with its path.
///
/// A value of a wrong type is reported alone, all other problems together. Neither a message nor a path shows a
/// possible password: values of addresses, and names and values that look like one, are written as `…`.
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
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

/// One problem of a configuration.
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
    /// The file or provider of the value.
    source: Option<String>,
    path: String,
    message: String,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<ConfigProblem>) -> Self {
        Self { problems }
    }

    /// The problem that serde reports, with its path under `root`.
    pub(super) fn from_serde(
        root: &str,
        error: &serde_path_to_error::Error<impl fmt::Display>,
    ) -> Self {
        let path = path_text(root, error.path());
        let (said, place) = undrawn(&error.inner().to_string());
        let said = without_secrets(&said, in_address(&path));
        // Figment puts the list of names, which has backticks, into backticks.
        let said = said.replace("expected `one of `", "expected one of `").replace("``", "`");
        let near = suggestion(&said).map(|name| format!("; did you mean `{name}`?"));
        let message = format!("{said}{}{place}", near.unwrap_or_default());
        Self::new(vec![ConfigProblem::new(path, message)])
    }

    /// There is no table `lock`.
    pub(super) fn no_table() -> Self {
        let message =
            "there is no table `lock`; put the settings of locks there, such as `lock.url`";
        Self::new(vec![ConfigProblem::new("", message)])
    }

    /// A file that a figment names does not exist. Figment keeps no path of it.
    #[cfg(feature = "figment")]
    pub(super) fn missing_file(name: &str) -> Self {
        let message = format!(
            "a {name} does not exist, and its locks would be missing; correct its path or, if it may be missing, \
             merge it only if it exists"
        );
        Self::new(vec![ConfigProblem::new("", message)])
    }

    /// The problem of a text that a parser cannot read.
    #[cfg(any(feature = "toml", feature = "figment"))]
    pub(super) fn unreadable(what: &str, error: &impl fmt::Display) -> Self {
        let message = error.to_string();
        let hint = unquoted_duration(&message);
        let hint = hint.map(|it| format!("; write it in quotes: {it:?}")).unwrap_or_default();
        let (said, place) = undrawn(&message);
        let said = without_secrets(&said, false);
        Self::new(vec![ConfigProblem::new("", format!("{what}: {said}{hint}{place}"))])
    }

    /// The same, with the source of the value at each path in front.
    #[cfg(any(feature = "toml", feature = "figment"))]
    pub(super) fn with_sources(mut self, source: impl Fn(&str) -> Option<String>) -> Self {
        for problem in &mut self.problems {
            problem.source = source(&problem.path);
            if let Some(source) = &problem.source
                && let Some(message) = problem.message.strip_suffix(&format!(" in {source}"))
            {
                problem.message = message.to_owned();
            }
        }
        self
    }

    /// Returns the problems; there is at least one.
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

/// The sentences, because a `main` that returns the error prints this form.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigProblem {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { source: None, path: path.into(), message: message.into() }
    }

    /// Returns its path, such as `lock.policies.checkout.wait`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what is wrong there and what was expected.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Returns `under.name`, quoted where a dot or a space would mislead.
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

/// Returns the known name that is most similar to an unknown one: serde lists them all, in backticks. A table and a name
/// in it, where one underscore joins them: environment variables need two.
fn suggestion(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let is_name =
        |part: &&str| part.starts_with(|c: char| c.is_alphanumeric()) && !part.contains(' ');
    let mut names = message.split('`').skip(1).filter(is_name);
    let found = names.next()?;
    let in_table = |table: &str| {
        let name = found.strip_prefix(table)?.strip_prefix('_')?;
        Some(format!("{table}.{name}"))
    };
    let near = nearest(found, names.clone());
    // Too many letters differ for `nearest`.
    let plural = || found.strip_suffix('y').map(|stem| format!("{stem}ies"));
    let is_plural = |name: &&str| plural().is_some_and(|plural| plural == **name);
    let near = near.or_else(|| names.clone().find(is_plural));
    names.find_map(in_table).or_else(|| near.map(str::to_owned))
}

/// Replaces text that is not shown.
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
pub(super) fn may_be_secret(text: &str) -> bool {
    text.contains(['@', '\\']) || text.contains("//") || text.starts_with(':')
}

/// Returns the text in quotes, or the sign for hidden text.
pub(super) fn quoted(text: &str) -> String {
    if may_be_secret(text) { format!("\"{HIDDEN}\"") } else { format!("{text:?}") }
}

/// Returns the name, or the sign for hidden text.
pub(super) fn shown(name: &str) -> &str {
    if is_odd_name(name) { "…" } else { name }
}

/// True for text that is part of no address: a word, a number, a duration, a list.
fn is_harmless(c: char) -> bool {
    c.is_alphanumeric() || " -_.*+,;()[]{}'\"`".contains(c)
}

/// Returns the message of a parser or serde without values that may be secret; for an address, without all
/// values.
pub(super) fn without_secrets(said: &str, of_address: bool) -> String {
    // Figment repeats the path, with unescaped names.
    let said = said.split(" for key \"").next().unwrap_or_default();
    // The expectation is text of this crate, and comes last.
    let end = said.rfind(", expected ").unwrap_or(said.len());
    let (found, expected) = said.split_at(end);
    let quote = found.find(['"', '`']);
    let (before, value) = found.split_at(quote.unwrap_or(found.len()));
    if may_be_secret(before) {
        return format!("it cannot be read{expected}");
    }
    // An unknown name next to the address is no value, and "missing" and "duplicate" are about fields.
    let is_value = before.contains("invalid");
    match value.chars().next() {
        None if of_address && is_value => {
            // Numbers, for parsers that do not quote them.
            let digits = |c: char| c.is_ascii_digit() || c == '-';
            format!("{}{expected}", before.trim_end_matches(digits).trim_end())
        }
        None => said.to_owned(),
        Some(_) if of_address && is_value => format!("{}{expected}", before.trim_end()),
        Some(_) if value.chars().all(is_harmless) => said.to_owned(),
        Some(quote) => format!("{before}{quote}{HIDDEN}{quote}{expected}"),
    }
}

/// Returns the value of the line that TOML draws if it is a duration without quotes, the most common mistake there.
/// Other values may be secret.
#[cfg(any(feature = "toml", feature = "figment"))]
fn unquoted_duration(message: &str) -> Option<&str> {
    let drawn = message.lines().filter_map(|line| line.split_once('|'));
    let mut values = drawn.filter_map(|(_, line)| line.split_once('='));
    values.find_map(|(_, value)| {
        let value = value.split('#').next().unwrap_or_default().trim();
        humantime::parse_duration(value).is_ok().then_some(value)
    })
}

/// Returns the message and, for TOML, the place. TOML also draws the line, which may contain a password.
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
