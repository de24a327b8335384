//! Layers: HTTP and gRPC services, by themselves and as whole programs.

mod layers;
mod orders;
pub(crate) mod prelude;
