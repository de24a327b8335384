//! The argument list: `name = value` or `name(…)`, each at most once, in any order.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, ExprLit, Lit, LitStr, Token};

use crate::errors::{Errors, list, nearest};

/// Every argument there is; [`Args::set`] has an arm for each.
pub(crate) const ARGUMENTS: [&str; 8] =
    ["key", "wait", "lease", "client", "guard", "on_busy", "on_lost", "crate"];

/// What other libraries call our arguments.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("name", "key"),
    ("id", "key"),
    ("timeout", "wait"),
    ("wait_timeout", "wait"),
    ("ttl", "lease"),
    ("expire", "lease"),
    ("expiry", "lease"),
    ("redis", "client"),
    ("connection", "client"),
];

/// Shortest lease that renewals fit into, and the longest that the fencing counter outlives
/// (S-10, S-23); the runtime refuses the same for leases it is given.
const LEASES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 60 * 60);

/// What the attribute was told.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<KeyArg>,
    pub(crate) wait: Option<WaitArg>,
    pub(crate) lease: Option<LeaseArg>,
    pub(crate) client: Option<Expr>,
    pub(crate) guard: Option<Ident>,
    pub(crate) on_busy: Option<OnBusy>,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) root: Option<syn::Path>,
    /// The arguments seen, right or wrong, for telling a broken one from a missing one.
    seen: Vec<String>,
    /// Whether parsing gave up half way.
    broken: bool,
}

pub(crate) enum KeyArg {
    Template(LitStr),
    Filled(LitStr, Vec<Expr>),
    Expression(Expr),
}

pub(crate) enum WaitArg {
    Never,
    Forever,
    UpTo(Time),
}

pub(crate) enum LeaseArg {
    Fixed(Time),
    /// `None`: as long as the runtime thinks right.
    Watchdog(Option<Time>),
}

pub(crate) enum Time {
    Literal(Duration),
    Expression(Expr),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnBusy {
    Error,
    Skip,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLost {
    Cancel,
    Finish,
}

/// What stands behind an argument's name.
enum Given {
    Value(Expr),
    List(Span, Punctuated<Expr, Token![,]>),
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                args.parse_one(input, errors)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        let parsed = all.parse2(tokens);
        args.broken = errors.keep(parsed).is_none();
        args
    }

    /// Whether the argument is not there at all, as far as one can know.
    pub(crate) fn is_missing(&self, name: &str) -> bool {
        !self.broken && !self.seen.iter().any(|seen| seen == name)
    }

    fn parse_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        if let Ok(literal) = input.fork().parse::<LitStr>() {
            let message = format!("this has no name; write `key = {:?}`", literal.value());
            return Err(input.error(message));
        }
        let name = input.call(Ident::parse_any)?;
        let given = if input.peek(syn::token::Paren) {
            let content;
            let paren = syn::parenthesized!(content in input);
            Given::List(paren.span.join(), Punctuated::parse_terminated(&content)?)
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            Given::Value(ungrouped(input.parse()?))
        } else if ARGUMENTS.contains(&name.to_string().as_str()) {
            let message = format!("`{name}` has no value; write `{name} = …`");
            return Err(syn::Error::new(name.span(), message));
        } else {
            return Err(unknown(&name));
        };
        if self.seen.iter().any(|seen| name == seen) {
            errors.push_at(name.span(), format!("`{name}` is given twice; keep one of them"));
        } else {
            self.seen.push(name.to_string());
            let set = self.set(&name, given);
            errors.keep(set);
        }
        Ok(())
    }

    fn set(&mut self, name: &Ident, given: Given) -> syn::Result<()> {
        let argument = name.to_string();
        let value = match given {
            Given::List(span, list) if argument == "key" => {
                self.key = Some(filled_key(span, list)?);
                return Ok(());
            }
            Given::List(..) if ARGUMENTS.contains(&argument.as_str()) => {
                let message =
                    format!("`{argument}` takes its value behind `=`; write `{argument} = …`");
                return Err(syn::Error::new(name.span(), message));
            }
            Given::List(..) => return Err(unknown(name)),
            Given::Value(value) => value,
        };
        match argument.as_str() {
            "key" => self.key = Some(key(value)?),
            "wait" => self.wait = Some(wait(value)?),
            "lease" => self.lease = Some(lease(value)?),
            "client" => self.client = Some(value),
            "guard" => self.guard = Some(guard(&value)?),
            "on_busy" => {
                let choices = [("error", OnBusy::Error), ("skip", OnBusy::Skip)];
                self.on_busy = Some(choose(&argument, &value, choices)?);
            }
            "on_lost" => {
                let choices = [("cancel", OnLost::Cancel), ("finish", OnLost::Finish)];
                self.on_lost = Some(choose(&argument, &value, choices)?);
            }
            "crate" => self.root = Some(root(value)?),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn unknown(name: &Ident) -> syn::Error {
    let text = name.to_string();
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == text).map(|(_, ours)| *ours);
    let hint = match other.or_else(|| nearest(&text, ARGUMENTS)) {
        Some(near) => format!(" (did you mean `{near}`?)"),
        None => String::new(),
    };
    let all = list(ARGUMENTS, "and");
    let message = format!("there is no argument `{name}`{hint}; the arguments are {all}");
    syn::Error::new(name.span(), message)
}

fn key(value: Expr) -> syn::Result<KeyArg> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(template), .. }) => Ok(KeyArg::Template(template)),
        Expr::Lit(literal) => Err(syn::Error::new(
            literal.span(),
            "a key is text; write it in double quotes, such as `key = \"order:{id}\"`",
        )),
        value => Ok(KeyArg::Expression(value)),
    }
}

fn filled_key(span: Span, list: Punctuated<Expr, Token![,]>) -> syn::Result<KeyArg> {
    let mut list = list.into_iter().map(ungrouped);
    match list.next() {
        Some(Expr::Lit(ExprLit { lit: Lit::Str(template), .. })) => {
            Ok(KeyArg::Filled(template, list.collect()))
        }
        first => Err(syn::Error::new(
            first.map_or(span, |first| first.span()),
            "the text of the key comes first; write `key(\"order:{}\", order.id)`",
        )),
    }
}

fn wait(value: Expr) -> syn::Result<WaitArg> {
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

fn lease(value: Expr) -> syn::Result<LeaseArg> {
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
    if lease < *LEASES.start() {
        let least = LEASES.start();
        Err(format!("a lease of {lease:?} is too short to be kept; give at least {least:?}"))
    } else if lease > *LEASES.end() {
        Err("a lease over 24 hours is too long; `lease = watchdog` lasts as long as the body runs"
            .to_owned())
    } else {
        Ok(())
    }
}

/// A duration as the attribute takes it: a checked literal, or an expression for the run time.
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

fn literal_time(argument: &str, literal: &Lit) -> Result<Duration, String> {
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
        (_, number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("{text:?} has no unit; write `\"{text}s\"` or `\"{text}ms\"`"));
        }
        _ => {}
    }
    humantime::parse_duration(&text).map_err(|_| {
        format!("{text:?} is no duration; write one such as `\"250ms\"`, `\"2s\"` or `\"1m 30s\"`")
    })
}

fn guard(value: &Expr) -> syn::Result<Ident> {
    word(value).cloned().ok_or_else(|| {
        syn::Error::new_spanned(
            value,
            "`guard` gives the hold a name in the body; write a new name, such as `guard = hold`",
        )
    })
}

fn choose<T: Copy>(argument: &str, value: &Expr, choices: [(&str, T); 2]) -> syn::Result<T> {
    let chosen = word(value).and_then(|word| choices.iter().find(|(choice, _)| word == choice));
    chosen.map(|(_, value)| *value).ok_or_else(|| {
        let words = list(choices.map(|(choice, _)| choice), "or");
        syn::Error::new_spanned(value, format!("`{argument}` takes {words}, without quotes"))
    })
}

fn root(value: Expr) -> syn::Result<syn::Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        value => Err(syn::Error::new_spanned(
            value,
            "`crate` is the path of `lock_runtime` from here, such as `crate = ::lock_runtime`",
        )),
    }
}

/// The expression, if it is a single name.
pub(crate) fn word(value: &Expr) -> Option<&Ident> {
    match value {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// Takes off the invisible brackets that a `macro_rules!` variable comes in.
fn ungrouped(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

#[cfg(test)]
mod tests;
