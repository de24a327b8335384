//! In place of the lock order where its feature is off: nothing, without a cost.

/// A client that records nothing.
#[derive(Clone, Default)]
pub(crate) struct ClientOrder;

impl ClientOrder {
    pub(crate) fn new(_: bool, _: Option<&str>) -> Self {
        Self
    }
}
