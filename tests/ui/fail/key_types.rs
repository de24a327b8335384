#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    literal() [key = 42]
    expression(id: u64) [key = id]
    no_list(ids: u64) [keys = ids]
    no_texts(ids: Vec<u64>) [keys = ids]
    no_text(id: u64) [keys = ["all", id]]
    float(price: f64) [key = "price:{price}"]
    option(user: Option<String>) [key("user:{}", user.as_ref())]
}

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{order.idd}")]
async fn placeholder_field(order: &Order) -> Result<u64, LockError> {
    Ok(order.id)
}

mod shop {
    pub struct Order {
        id: u64,
    }

    impl Order {
        pub fn number(&self, base: u64) -> u64 {
            self.id + base
        }
    }
}

annotated! {
    private(order: shop::Order) [key = "order:{order.id}"]
    arguments(order: shop::Order) [key = "order:{order.number()}"]
    no_call(order: shop::Order) [key = "order:{order.number}"]
    no_type(order: shop::Order) [key = "order:{order.lines}"]
}

fn main() {}
