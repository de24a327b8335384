//! A process of a test, in one of several roles: `worker <role> <arguments>`, see the module of the role.
//!
//! What it does under locks is in the history.

mod blocking;
mod crew;
mod end;
mod fork;
mod locks;
mod tick;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    // Of these, some have no runtime, and some have their own.
    match args[..] {
        ["blocking", url, dir, ref work @ ..] => blocking::run(url, dir, work),
        ["crew", config, values, dir, answer, habits] => {
            crew::run(config, values, dir, answer, habits)
        }
        ["end", url, dir, flavor, what, end] => end::run(url, dir, flavor, what, end),
        ["fork", config, values, dir, _, habits] => fork::run(config, values, dir, habits),
        ["locks", url, dir, ref waiter_lease @ ..] => locks::run(url, dir, waiter_lease.first()),
        ["tick", url, dir, at_least] => tick::run(url, dir, at_least),
        _ => Err(format!("there is no role with these arguments: {args:?}").into()),
    }
}
