//! Where balances are: a map, or Redis. Each access is safe by itself; two in a row are not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, RedisError};

/// A balance for every order, zero to begin with.
#[derive(Clone)]
pub(crate) enum Ledger {
    Memory(Arc<Mutex<HashMap<String, u64>>>),
    Redis(MultiplexedConnection),
}

impl Ledger {
    pub(crate) fn in_memory() -> Self {
        Self::Memory(Arc::default())
    }

    pub(crate) async fn redis(url: &str) -> Result<Self, RedisError> {
        // The default of half a second is little for a thousand requests at once.
        let config =
            AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(5)));
        let client = redis::Client::open(url)?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self::Redis(connection))
    }

    pub(crate) async fn read(&self, order: &str) -> Result<u64, RedisError> {
        match self {
            Self::Memory(balances) => {
                let balances = balances.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(balances.get(order).copied().unwrap_or_default())
            }
            Self::Redis(connection) => {
                let balance: Option<u64> = connection.clone().get(name(order)).await?;
                Ok(balance.unwrap_or_default())
            }
        }
    }

    pub(crate) async fn write(&self, order: &str, cents: u64) -> Result<(), RedisError> {
        match self {
            Self::Memory(balances) => {
                let mut balances = balances.lock().unwrap_or_else(PoisonError::into_inner);
                balances.insert(order.to_owned(), cents);
                Ok(())
            }
            Self::Redis(connection) => connection.clone().set(name(order), cents).await,
        }
    }
}

fn name(order: &str) -> String {
    format!("shop:balance:{order}")
}
