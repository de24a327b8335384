//! Fenced transactions on real databases.
//!
//! Each test but those of SQLite needs a server that `cargo xtask test --with-databases` installs, and is ignored without it.

mod cost;
mod crew;
mod drivers;
mod holds;
mod rounds;
mod servers;
mod wrong_use;
