//! What is neither a newtype nor an enum without values.

use std::marker::PhantomData;

use lock_runtime::KeyPart;

#[derive(KeyPart)]
struct Route {
    shop: u64,
    number: u64,
}

#[derive(KeyPart)]
struct Triple(u8, PhantomData<u8>, String, u8);

#[derive(KeyPart)]
struct Nightly;

#[derive(KeyPart)]
struct Marker<T> {
    of: PhantomData<T>,
}

#[derive(KeyPart)]
enum Never {}

#[derive(KeyPart)]
union Bits {
    signed: i32,
    unsigned: u32,
}

#[derive(KeyPart)]
enum Payment {
    Cash,
    Card { number: u64 },
    Transfer(PhantomData<u8>, String),
}

fn main() {}
