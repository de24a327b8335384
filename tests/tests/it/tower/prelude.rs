//! What most tests of layers use beside the prelude.

pub(crate) use crate::prelude::*;
pub(crate) use crate::support::troubled::{Trouble, Troubled};
pub(crate) use crate::tower::http::*;
pub(crate) use crate::tower::layers::world::*;
