//! Names of variants that are no good.

use lock_runtime::KeyPart;

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

fn main() {}
