//! Stores on Redis, on Redisson's keys, fields and channels.
//!
//! Each request is one script, so the server makes it atomic. The only place that names the client
//! library, none of whose types are public. ARCHITECTURE.md lists the layers.
// S-2, S-25.

mod cluster;

mod endpoint;
#[cfg(feature = "__fuzz")]
pub(crate) mod fuzz;
mod link;
mod requests;
mod scripts;
mod server;
mod store;

pub use self::cluster::ClusterStore;
pub(crate) use self::link::ConnectionName;
#[cfg(not(feature = "tls-rustls"))]
pub(crate) use self::server::TlsOptions;
#[cfg(feature = "policy")]
pub(crate) use self::server::address::is_address;
#[cfg(feature = "tls-rustls")]
pub use self::server::tls::TlsOptions;
pub use self::store::RedisStore;
