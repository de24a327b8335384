//! One server: its address, its TLS, its errors.

pub(crate) mod address;
pub(crate) mod errors;
#[cfg(feature = "tls-rustls")]
pub(crate) mod tls;
