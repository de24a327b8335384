//! What the queue and the leases use of the room `admin`.

#[path = "../../../lock-runtime/src/admin/order/off.rs"]
pub(crate) mod order;
#[path = "../../../lock-runtime/src/admin/waits.rs"]
pub(crate) mod waits;
