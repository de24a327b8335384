//! `lockctl run`.

mod ends;
mod losses;
mod servers;
mod starts;
mod terminal;
mod world;
