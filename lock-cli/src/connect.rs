//! Connecting to the store that the command line names.

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;

use crate::args::StoreArgs;
use crate::failure::{Failure, with_causes};

impl StoreArgs {
    /// Connects. This client answers no surveys, so it lists only the services.
    pub(crate) async fn connect(&self) -> Result<LockClient, Failure> {
        let mut builder = LockClient::builder().survey(false);
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(master) = &self.sentinel {
            return Ok(builder.connect_sentinel(master, &self.node).await?);
        }
        if !self.cluster.is_empty() {
            return Ok(builder.connect_cluster(&self.cluster).await?);
        }
        match (&self.config, &self.url) {
            (Some(file), _) => {
                let config = LockConfig::from_toml_file(file)
                    .map_err(|error| Failure::usage(with_causes(&error)))?;
                Ok(builder.connect_config(config).await?)
            }
            (None, Some(url)) => Ok(builder.connect(url).await?),
            (None, None) => Err(Failure::usage(
                "no server is named; give --url redis://host:port, set LOCK_URL, or give --sentinel, \
                 --cluster or --config",
            )),
        }
    }
}
