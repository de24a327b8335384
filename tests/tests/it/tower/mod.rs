//! Layers: HTTP and gRPC services, by themselves and as whole programs.

pub(crate) mod http;
mod layers;
mod orders;
pub(crate) mod prelude;
