//! Loaders with errors of their own: those of parsers quote the wrong line, with its password.

use super::LockConfig;
use super::error::ConfigError;
#[cfg(feature = "figment-010")]
use super::{Map, variables};

impl LockConfig {
    /// Reads a TOML text that has a table `[lock]`; other tables are ignored.
    ///
    /// Unlike that of `toml::from_str`, its error does not quote the wrong line, which may contain a password.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if it cannot be parsed, has no such table, or contradicts itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let error = LockConfig::from_toml("lock.url = 'redis://:secret@host' junk").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the TOML cannot be parsed: unexpected key or value, expected newline, `#` (line 1, column 35)"
    /// );
    /// ```
    #[cfg(feature = "toml")]
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let parsed = toml::Deserializer::parse(text);
        let unreadable = |error| ConfigError::unreadable("the TOML cannot be parsed", &error);
        Self::from_deserializer(parsed.map_err(unreadable)?)
    }

    /// Reads a TOML file that has a table `[lock]`; other tables are ignored.
    ///
    /// Blocks the thread, as [`std::fs::read_to_string`] does.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the file cannot be read, and as [`from_toml`](Self::from_toml); it names the file.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::from_config(LockConfig::from_toml_file("app.toml")?).await?;
    /// client.install();
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "toml")]
    pub fn from_toml_file(path: impl AsRef<std::path::Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("the file {} cannot be read", path.display());
            ConfigError::unreadable(&what, &error)
        })?;
        Self::from_toml(&text)
            .map_err(|error| error.with_sources(|_| Some(path.display().to_string())))
    }

    /// Reads the table `lock` of a figment: files, environment variables, defaults of the program.
    ///
    /// Unlike `figment.extract_inner("lock")`, whose error quotes the line that a parser refused, this shows no
    /// part of an address. Its error names the provider of the wrong value, and the file.
    ///
    /// Every file of the figment must exist: figment reads a missing one as empty, and its locks would be missing.
    /// Merge a file that may be missing only if it exists. A policy all of whose values come from environment
    /// variables, beside policies of other providers, is logged at `warn`: its name may be misspelt.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a provider fails, a file is missing, there is no such table, or it contradicts itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use figment::Figment;
    /// use figment::providers::{Env, Format, Toml};
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let variables = Env::prefixed("MYAPP_").split("__"); // MYAPP_LOCK__DEFAULTS__WAIT=5s
    /// let text = "[lock]\nurl = 'memory:'\n[lock.defaults]\nwait = 3";
    /// let figment = Figment::new().merge(Toml::string(text)).merge(variables);
    /// assert_eq!(
    ///     LockConfig::from_figment(&figment).unwrap_err().to_string(),
    ///     "TOML source string: lock.defaults.wait: invalid type: found signed int `3`, expected how long \
    ///      to wait: \"3s\", \"none\" or \"forever\""
    /// );
    /// ```
    #[cfg(feature = "figment-010")]
    pub fn from_figment(figment: &figment::Figment) -> Result<Self, ConfigError> {
        /// Read or not: figment would return a failure that it sees as its own error.
        struct Read(Result<super::Table, ConfigError>);
        impl<'de> serde::Deserialize<'de> for Read {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let read = serde_path_to_error::deserialize(from).map(|Map(table)| table);
                Ok(Self(read.map_err(|error| ConfigError::from_serde("lock", &error))))
            }
        }
        if let Some(missing) = figment.metadata().find(|data| is_missing_file(data)) {
            return Err(ConfigError::missing_file(&missing.name));
        }
        let Read(read) = figment.extract_inner("lock").map_err(|error| match error.kind {
            figment::error::Kind::MissingField(_) => ConfigError::no_table(),
            ref kind => ConfigError::unreadable("the configuration cannot be read", kind)
                .with_sources(|_| error.metadata.as_ref().map(provider)),
        })?;
        read.and_then(Self::checked)
            .and_then(|config| variables::check(figment).map(|()| config))
            .map_err(|error| error.with_sources(|path| figment.find_metadata(path).map(provider)))
    }
}

/// True for a provider of a file that was not found: only then it has no path.
#[cfg(feature = "figment-010")]
fn is_missing_file(data: &figment::Metadata) -> bool {
    data.source.is_none() && data.name.ends_with(" file")
}

/// What a figment calls the provider of a value; of several files, which one.
#[cfg(feature = "figment-010")]
fn provider(data: &figment::Metadata) -> String {
    match data.source.as_ref().and_then(figment::Source::file_path) {
        Some(path) => format!("{} {}", data.name, path.display()),
        None => data.name.to_string(),
    }
}
