//! What a console may do.

use std::fmt;

/// What a console may do, and who may open it. By default it only shows, to whoever reaches it.
#[derive(Clone, Default)]
#[must_use]
pub struct ConsoleOptions {
    pub(crate) allow_release: bool,
    pub(crate) token: Option<String>,
    pub(crate) hosts: Vec<String>,
}

impl ConsoleOptions {
    /// Returns the defaults: the console shows locks and releases none, and asks for no token.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the console may [release locks by force](lock_runtime::admin::Admin::force_release). Default: it may not.
    ///
    /// A release is accepted from the console's own page only: the request must come from the same origin, with the token
    /// against forged requests that the page has, and with the name of the lock typed once more. Each is logged at `warn`.
    pub fn allow_release(mut self, allow: bool) -> Self {
        self.allow_release = allow;
        self
    }

    /// Asks for this token: as `Authorization: Bearer …`, or typed into a form whose cookie lasts as long as the browser.
    /// Use it where more than this machine reaches the console, and then behind TLS. An empty token admits no viewer, so that a
    /// setting that is missing opens nothing. Default: none.
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Answers only requests that name one of these hosts, without a port: `localhost`, `locks.example.org`, `[::1]`.
    /// Default: any host.
    ///
    /// Name them if the console has no token and browsers reach it at an address that no other machine reaches. Another
    /// site can give its own name that address ("DNS rebinding"), and its page then counts as the console's own.
    ///
    /// ```
    /// # use lock_console::ConsoleOptions;
    /// let options = ConsoleOptions::new().hosts(["localhost", "127.0.0.1"]);
    /// ```
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts = hosts.into_iter().map(Into::into).collect();
        self
    }
}

impl fmt::Debug for ConsoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("ConsoleOptions")
            .field("allow_release", &self.allow_release)
            .field("token", &token)
            .field("hosts", &self.hosts)
            .finish()
    }
}
