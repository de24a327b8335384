//! A newtype of what is no key part: the error shows the field.

use lock_runtime::KeyPart;

#[derive(KeyPart)]
struct Price(f64);

#[derive(KeyPart)]
struct Session {
    user: Option<u64>,
}

#[derive(Debug)]
struct OnlyDebug;

#[derive(KeyPart)]
struct Order(OnlyDebug);

#[derive(KeyPart)]
struct Generic<T>(Vec<T>);

fn main() {}
