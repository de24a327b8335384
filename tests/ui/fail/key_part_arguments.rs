use lock_runtime::KeyPart;
use std::marker::PhantomData;

// Arguments of `#[key_part(…)]` that are unknown, misplaced or wrong.
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

// Names of variants that are no good.
#[derive(KeyPart)]
enum Region {
    EuWest,
    Eu_West,
    #[key_part(name = "north")]
    Nord,
    North,
    South,
    #[key_part(name = "south")]
    Sud,
}

#[derive(KeyPart)]
enum Empty {
    __,
    #[key_part(name = "")]
    Blank,
}

// What is neither a newtype nor an enum without values.
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
