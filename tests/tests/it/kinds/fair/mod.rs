//! The fair mutex on Redis (S-26), within one process; see `fair_processes` for several.

mod cancel;
mod faults;
mod mixed_line;
mod order;
mod peer;
mod redisson;
mod world;
