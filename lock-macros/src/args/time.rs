//! Durations, and the arguments with a duration.

use std::time::Duration;

use humantime::format_duration;
use lock_syntax::{MAX_LEASE, MIN_LEASE};
use syn::spanned::Spanned as _;
use syn::{Expr, ExprLit, Lit};

use super::{ungrouped, word};

pub(crate) enum WaitArg {
    Never,
    Forever,
    UpTo(Time),
}

pub(crate) enum LeaseArg {
    Fixed(Time),
    /// `None`: the runtime's default.
    Watchdog(Option<Time>),
}

pub(crate) enum Time {
    Literal(Duration),
    Expression(Expr),
}

impl Time {
    /// Returns the duration, if it is already known.
    pub(crate) fn literal(&self) -> Option<Duration> {
        match self {
            Self::Literal(duration) => Some(*duration),
            Self::Expression(_) => None,
        }
    }
}

pub(super) fn wait(value: Expr) -> syn::Result<WaitArg> {
    match word(&value) {
        Some(word) if word == "none" => return Ok(WaitArg::Never),
        Some(word) if word == "forever" => return Ok(WaitArg::Forever),
        _ => {}
    }
    time("wait", value, |limit| match limit {
        Duration::ZERO => Err("a wait of zero never waits; write `wait = none`".to_owned()),
        _ => Ok(()),
    })
    .map(WaitArg::UpTo)
}

pub(super) fn lease(value: Expr) -> syn::Result<LeaseArg> {
    match value {
        value if word(&value).is_some_and(|word| word == "watchdog") => {
            Ok(LeaseArg::Watchdog(None))
        }
        Expr::Call(call) if word(&call.func).is_some_and(|word| word == "watchdog") => {
            let mut values = call.args.into_iter().map(ungrouped);
            match (values.next(), values.next()) {
                (Some(value), None) => {
                    Ok(LeaseArg::Watchdog(Some(time("lease", value, check_lease)?)))
                }
                _ => Err(syn::Error::new(
                    call.func.span(),
                    "`watchdog` takes one duration; write `watchdog(\"45s\")`, or `watchdog` for \
                     the usual one",
                )),
            }
        }
        value => Ok(LeaseArg::Fixed(time("lease", value, check_lease)?)),
    }
}

fn check_lease(lease: Duration) -> Result<(), String> {
    if lease < MIN_LEASE {
        let (given, least) = (format_duration(lease), format_duration(MIN_LEASE));
        Err(format!("a lease of {given} is too short to be kept; give at least {least}"))
    } else if lease > MAX_LEASE {
        Err("a lease over 24 hours is too long; `lease = watchdog` lasts as long as the body runs"
            .to_owned())
    } else {
        Ok(())
    }
}

/// A duration in the attribute: a checked literal, or an expression for run time.
fn time(
    argument: &str,
    value: Expr,
    check: impl FnOnce(Duration) -> Result<(), String>,
) -> syn::Result<Time> {
    let parsed = match &value {
        Expr::Lit(ExprLit { lit, .. }) => literal_time(argument, lit),
        Expr::Unary(negative) if matches!(*negative.expr, Expr::Lit(_)) => {
            Err("a duration is a text with a unit and without a sign, such as `\"2s\"`".to_owned())
        }
        _ => return Ok(Time::Expression(value)),
    };
    match parsed.and_then(|duration| check(duration).map(|()| duration)) {
        Ok(duration) => Ok(Time::Literal(duration)),
        Err(message) => Err(syn::Error::new_spanned(value, message)),
    }
}

pub(super) fn literal_time(argument: &str, literal: &Lit) -> Result<Duration, String> {
    let text = match literal {
        Lit::Str(text) => text.value(),
        Lit::Int(number) => {
            let unit = if number.suffix().is_empty() { "s" } else { number.suffix() };
            let digits = number.base10_digits();
            return Err(format!(
                "a duration is a text with a unit; write `{argument} = \"{digits}{unit}\"`"
            ));
        }
        _ => return Err("a duration is a text with a unit, such as `\"2s\"`".to_owned()),
    };
    match (argument, text.as_str()) {
        ("wait", "none" | "forever") | ("lease", "watchdog") => {
            return Err(format!("write `{argument} = {text}`, without quotes"));
        }
        // As in configurations.
        ("lease", watchdog) if watchdog.starts_with("watchdog ") => {
            let lease = watchdog.trim_start_matches("watchdog").trim();
            return Err(format!(
                "write `lease = watchdog({lease:?})`, with quotes around the time only"
            ));
        }
        (_, number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("{text:?} has no unit; write `\"{text}s\"` or `\"{text}ms\"`"));
        }
        _ => {}
    }
    humantime::parse_duration(&text).map_err(|_| {
        format!("{text:?} is no duration; write one such as `\"250ms\"`, `\"2s\"` or `\"1m 30s\"`")
    })
}

pub(super) fn release_timeout(value: Expr) -> syn::Result<Time> {
    time("release_timeout", value, |_| Ok(()))
}

pub(super) fn at_least(value: Expr) -> syn::Result<Time> {
    time("at_least", value, |at_least| {
        if at_least.is_zero() {
            Err("keeping the lock for at least nothing says nothing; leave `at_least` out"
                .to_owned())
        } else if at_least > MAX_LEASE {
            Err("a lock can be kept for 24 hours at most; write a shorter `at_least`".to_owned())
        } else {
            Ok(())
        }
    })
}

pub(super) fn max_hold(value: Expr) -> syn::Result<Time> {
    time("max_hold", value, |max_hold| {
        if max_hold.is_zero() {
            return Err(
                "a lock that may not be held is no lock; leave `max_hold` out or give it time"
                    .to_owned(),
            );
        }
        Ok(())
    })
}
