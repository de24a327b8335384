//! `lockctl run`.

mod ends;
mod groups;
mod losses;
mod servers;
mod starts;
mod terminal;
mod world;
