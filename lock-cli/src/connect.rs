//! Connecting to the store that the command line names.

use std::path::Path;

use lock_runtime::LockClient;
use lock_runtime::client::LockClientBuilder;
use lock_runtime::policy::LockConfig;

use crate::args::StoreArgs;
use crate::config_file;
use crate::failure::Failure;
use crate::text::harmless;

impl StoreArgs {
    /// Connects the client that `builder` describes.
    pub(crate) async fn connect(
        &self,
        mut builder: LockClientBuilder,
    ) -> Result<LockClient, Failure> {
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
            (Some(file), _) => Ok(builder.connect_config(self.read_config(file)?).await?),
            (None, Some(url)) => Ok(builder.connect(url).await?),
            (None, None) => Err(Failure::usage(
                "no server is named; give --url redis://host:port, set LOCK_URL, or give --sentinel, \
                 --cluster or --config",
            )),
        }
    }

    /// Reads the configuration, which must not contradict `--namespace`.
    fn read_config(&self, file: &Path) -> Result<LockConfig, Failure> {
        let config =
            config_file::config(file, &config_file::text(file)?).map_err(Failure::usage)?;
        match (config.namespace(), self.namespace.as_deref()) {
            (Some(own), Some(given)) if own != given => Err(Failure::usage(format!(
                "{} has another namespace than {}, which --namespace or LOCK_NAMESPACE gives; leave that out",
                file.display(),
                harmless(given)
            ))),
            _ => Ok(config),
        }
    }
}
