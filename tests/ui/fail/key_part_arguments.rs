//! Arguments of `#[key_part(…)]` that are unknown, misplaced or wrong.

use lock_runtime::KeyPart;

#[derive(KeyPart)]
#[key_part(crat = ::lock_runtime)]
struct Misspelt(u64);

#[derive(KeyPart)]
#[key_part(rename_all = "lowercase")]
enum Foreign {
    #[key_part(nam = "a")]
    A,
    #[key_part(rename = "b")]
    B,
}

#[derive(KeyPart)]
#[key_part(name = "id")]
struct Name(u64);

#[derive(KeyPart)]
enum Crate {
    #[key_part(crate = ::lock_runtime)]
    A,
}

#[derive(KeyPart)]
struct Field(#[key_part(skip)] u64);

#[derive(KeyPart)]
#[key_part(crate = "lock_runtime")]
struct Text(u64);

#[derive(KeyPart)]
#[key_part(crate = ::lock_runtime, crate = ::lock_runtime)]
struct CrateTwice(u64);

#[derive(KeyPart)]
enum Values {
    #[key_part(name = a)]
    A,
    #[key_part(name)]
    B,
    #[key_part(name = "c", name = "d")]
    C,
    #[key_part]
    D,
    #[key_part = "e"]
    E,
    #[key_part(name("f"))]
    F,
    #[key_part(name = "g")]
    #[key_part(name = "h")]
    G,
}

fn main() {}
