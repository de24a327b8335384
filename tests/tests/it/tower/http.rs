//! The names of HTTP and of layers, for tests of all subjects.

pub(crate) use axum::Router;
pub(crate) use axum::body::Body;
pub(crate) use axum::extract::State;
pub(crate) use axum::routing::post;
pub(crate) use bytes::Bytes;
pub(crate) use futures_util::stream::{self, StreamExt};
pub(crate) use http::{Method, Request, Response, StatusCode};
pub(crate) use http_body::{Frame, SizeHint};
pub(crate) use http_body_util::{BodyExt, Full, StreamBody};
pub(crate) use lock_tower::http::HoldUntil;
pub(crate) use lock_tower::{HeldLock, HttpLockLayer, HttpLockLayerBuilder, LockBody, LockLayer};
pub(crate) use tokio::io::{AsyncReadExt, AsyncWriteExt};
pub(crate) use tokio::net::{TcpListener, TcpStream};
pub(crate) use tower::{Layer, Service, ServiceExt, service_fn};
