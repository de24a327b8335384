//! [`ConfigError`]: the problems of a configuration, by path.
//!
//! Parsers and serde quote what they read, and addresses contain passwords. Messages show only words: text without the
//! punctuation that every address has. At the path of an address they show no text at all.

use std::fmt;

use lock_syntax::nearest;
use serde_path_to_error::{Path, Segment};

use crate::error::LockError;

/// Why a configuration is refused: every problem, each with its path.
///
/// A value of a wrong type is reported alone, the problems of all tables together. Neither a message nor a path shows any part
/// of an address: they say what was expected there, and how to write it. `Debug` writes the same lines, for a `main`
/// that returns the error.
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
///     "lock.policies.checkout.base: there is no lock.base.strct; did you mean \"strict\"?",
///     "lock.policies.checkout.wait: a wait of zero never waits; use \"none\" to say so",
/// ]);
/// assert_eq!(error.problems()[0].path(), "lock.policies.checkout.base");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

/// One problem of a configuration, or of an annotated function or a layer that does not match it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigProblem {
    /// The file or provider of the value.
    source: Option<String>,
    path: String,
    message: String,
}

impl ConfigError {
    pub(crate) fn new(problems: Vec<ConfigProblem>) -> Self {
        Self { problems }
    }

    pub(crate) fn one(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(vec![ConfigProblem::new(path, message)])
    }

    /// `Ok` without problems.
    pub(crate) fn of(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::new(problems)) }
    }

    /// The problem that serde reports, with its path under `root`.
    pub(super) fn from_serde(
        root: &str,
        error: &serde_path_to_error::Error<impl fmt::Display>,
    ) -> Self {
        let path = path_text(root, error.path());
        let (said, place) = undrawn(&error.inner().to_string());
        let said = without_values(&said, in_address(&path));
        // Figment puts the list of names, which has backticks, into backticks.
        let said = said.replace("expected `one of `", "expected one of `").replace("``", "`");
        let near = suggestion(&said).map(|name| format!("; did you mean `{name}`?"));
        Self::one(path, format!("{said}{}{place}", near.unwrap_or_default()))
    }

    /// There is no table `lock`.
    pub(super) fn no_table() -> Self {
        Self::one(
            "",
            "there is no table `lock`; put the settings of locks there, such as `lock.url`",
        )
    }

    /// A file that a figment names does not exist. Figment keeps no path of it.
    #[cfg(feature = "figment-010")]
    pub(super) fn missing_file(name: &str) -> Self {
        Self::one(
            "",
            format!(
                "a {name} does not exist, and its locks would be missing; correct its path or, if it may be \
                 missing, merge it only if it exists"
            ),
        )
    }

    /// The problem of a text that a parser cannot read.
    #[cfg(any(feature = "toml", feature = "figment-010"))]
    pub(super) fn unreadable(what: &str, error: &impl fmt::Display) -> Self {
        let message = error.to_string();
        let hint = match has_bare_duration(&message) {
            true => "; write a duration in quotes, as in wait = \"8s\"",
            false => "",
        };
        let (said, place) = undrawn(&message);
        Self::one("", format!("{what}: {}{hint}{place}", without_values(&said, false)))
    }

    /// The same, with the source of the value at each path in front.
    #[cfg(any(feature = "toml", feature = "figment-010"))]
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

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigError> for LockError {
    fn from(error: ConfigError) -> Self {
        Self::InvalidOptions(error.to_string())
    }
}

impl ConfigProblem {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { source: None, path: path.into(), message: message.into() }
    }

    /// Returns its path, such as `lock.policies.checkout.wait`, or the place of a function or layer in the code.
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
pub(crate) fn join(under: &str, name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    match (under, name.is_empty() || !name.chars().all(plain)) {
        ("", _) => shown(name).to_owned(),
        (under, true) if is_word(name) => format!("{under}.{name:?}"),
        (under, _) => format!("{under}.{}", shown(name)),
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

/// True for the path of an address.
fn in_address(path: &str) -> bool {
    let field = path.strip_prefix("lock.").and_then(|rest| rest.split(['.', '[']).next());
    matches!(field, Some("url" | "cluster" | "sentinel" | "quorum"))
}

/// True for text that is no address: it has neither `:` nor `/` nor `@`, one of which is in each.
pub(crate) fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || " -_.*()".contains(c))
}

/// Returns the name, or a sign for one that is not shown.
pub(crate) fn shown(name: &str) -> &str {
    if is_word(name) { name } else { "…" }
}

/// Returns the message of a parser or serde without what was found, unless that is a word and `of_address` is false.
fn without_values(said: &str, of_address: bool) -> String {
    const PROBLEMS: [&str; 4] = ["invalid ", "unknown ", "missing ", "duplicate "];
    // YAML begins with the path and figment ends with it, each with unescaped names.
    let start = PROBLEMS.iter().filter_map(|problem| said.find(problem)).min().unwrap_or(0);
    let said = said[start..].split(" for key \"").next().unwrap_or_default();
    // The expectation is text of this crate, and comes last.
    let end = said.rfind(", expected ").unwrap_or(said.len());
    let (found, expected) = said.split_at(end);
    let (before, value) = found.split_at(found.find(['"', '`']).unwrap_or(found.len()));
    let inner = value.trim_matches(['"', '`']);
    if before.contains(['@', '/']) {
        format!("it cannot be read{expected}")
    } else if of_address && before.contains("invalid") {
        // Numbers, for parsers that do not quote them. An unknown name next to the address is no value.
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '-' | '.' | ' ');
        format!("{}{expected}", before.trim_end_matches(digits))
    } else if inner.chars().count() < 2 || is_word(inner) {
        said.to_owned()
    } else {
        let quote = &value[..1];
        format!("{before}{quote}…{quote}{expected}")
    }
}

/// True if the line that TOML draws has a duration without quotes, the most common mistake there.
#[cfg(any(feature = "toml", feature = "figment-010"))]
fn has_bare_duration(message: &str) -> bool {
    let drawn = message.lines().filter_map(|line| line.split_once('|'));
    drawn.filter_map(|(_, line)| line.split_once('=')).any(|(_, value)| {
        let value = value.split('#').next().unwrap_or_default().trim();
        super::span(value).is_some()
    })
}

/// Returns the message and, for TOML, the place. TOML also draws the line, which may contain a password.
fn undrawn(message: &str) -> (String, String) {
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
