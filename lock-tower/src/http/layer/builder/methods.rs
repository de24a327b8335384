//! Which requests are locked, by their method.

use http::Method;
use lock_runtime::policy::{Methods, SafeMethods};

use super::HttpLockLayerBuilder;

/// Which requests to lock.
impl HttpLockLayerBuilder {
    /// Which requests to lock; all others pass. Default: [all but](Self::all_methods_but) GET, HEAD, OPTIONS
    /// and TRACE, so that an unknown method locks. With GET goes HEAD, which routers have
    /// GET's handler answer.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.literals.http.methods = Some(Methods::These(names(methods)));
        self
    }

    /// Locks requests of every method, also those that only read.
    pub fn all_methods(mut self) -> Self {
        self.literals.http.methods = Some(Methods::All);
        self
    }

    /// Locks requests of every method but these, and with GET of HEAD.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Method;
    /// use lock_tower::LockLayer;
    ///
    /// // As the default, and for web sockets over HTTP/2, which begin with CONNECT.
    /// let layer = LockLayer::http()
    ///     .key("board:{header.x-board}")
    ///     .all_methods_but([Method::GET, Method::OPTIONS, Method::TRACE, Method::CONNECT])
    ///     .build()?;
    /// # let _ = layer;
    /// # Ok::<_, lock_tower::http::BuildError>(())
    /// ```
    pub fn all_methods_but(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.literals.http.methods = Some(Methods::AllBut(names(methods)));
        self
    }

    /// What GET and HEAD do, where [`methods`](Self::methods) does not name them. Default:
    /// [`SafeMethods::None`]. With `Shared` they take the read side of a read/write lock and all others
    /// its write side, so that nobody reads what is being written, at the price of a round trip for each
    /// read.
    pub fn safe_methods(mut self, safe_methods: SafeMethods) -> Self {
        self.literals.http.safe_methods = Some(safe_methods);
        self
    }
}

fn names(methods: impl IntoIterator<Item = Method>) -> Vec<String> {
    methods.into_iter().map(|method| method.to_string()).collect()
}
