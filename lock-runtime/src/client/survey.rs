//! A client's part in surveys: its name in them, whether it answers, and asking.

use super::{LockClient, LockClientBuilder};
use crate::survey::Surveying;

impl LockClientBuilder {
    /// Sets the name of the service that this client belongs to, for [surveys](crate::survey) and the
    /// [names of its connections](LockClient::id). Default: the name of the executable.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::builder().service("billing").in_memory()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self
    }

    /// Sets whether the client answers [surveys](crate::survey), which costs one subscription, and nothing until it is asked.
    /// Default: it does.
    ///
    /// # Examples
    ///
    /// ```
    /// let silent = lock_runtime::LockClient::builder().survey(false).in_memory()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn survey(mut self, answers: bool) -> Self {
        self.answers_surveys = answers;
        self
    }
}

impl LockClient {
    /// Asks all processes that use the same store who holds which lock and who waits: see [`survey`](crate::survey). Await
    /// it, after perhaps setting what it looks at.
    ///
    /// It never changes a lock. With an in-memory store it asks the clients of this process that share it.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`](crate::LockError::Store) if the store fails, or refuses this client the survey's channels.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::builder().service("billing").in_memory()?;
    /// let guard = client.mutex("order:42").lock().await?;
    ///
    /// let survey = client.survey().prefix("order:").await?;
    /// let lock = &survey.locks[0];
    /// let holder = &lock.holders[0];
    /// println!("{} is held by {} at {:?}", lock.key, holder.client.as_ref().unwrap(), holder.site);
    /// assert_eq!(holder.client.as_ref().unwrap().service, "billing");
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn survey(&self) -> Surveying {
        let settings = &self.settings;
        Surveying::new(&self.engine, settings.namespace.as_deref(), &settings.known_names)
    }
}
