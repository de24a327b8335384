//! The arguments that take one of a few words.

use syn::{Expr, ExprCall, ExprLit, ExprPath, Lit, Member};

use super::{ungrouped, word};
use crate::errors::{list, nearest};

/// The kinds of locks, as `kind` names them.
const KINDS: [&str; 5] = ["mutex", "fair", "read", "write", "semaphore"];

pub(crate) enum KindArg {
    Mutex,
    Fair,
    Read,
    Write,
    Semaphore(Limit),
}

/// How many permits a semaphore has.
pub(crate) enum Limit {
    Literal(u32),
    Expression(Expr),
}

pub(crate) enum OnBusy {
    Error,
    Skip,
    /// The function to call instead.
    Fallback(ExprPath),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLost {
    Cancel,
    Finish,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnReleaseLost {
    Log,
    Error,
}

pub(super) fn kind(value: Expr) -> syn::Result<KindArg> {
    if let Expr::Call(call) = &value
        && word(&call.func).is_some_and(|name| name == "semaphore")
    {
        return limit(call).map(KindArg::Semaphore);
    }
    match word(&value).map(ToString::to_string).as_deref() {
        Some("mutex") => Ok(KindArg::Mutex),
        Some("fair") => Ok(KindArg::Fair),
        Some("read") => Ok(KindArg::Read),
        Some("write") => Ok(KindArg::Write),
        Some("semaphore") => Err(syn::Error::new_spanned(
            value,
            "a semaphore has a number of permits; write `kind = semaphore(3)`",
        )),
        given => {
            let near = given.and_then(|given| nearest(given, KINDS));
            let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            let quotes = quotes(&value);
            let message = format!(
                "`kind` takes `mutex`, `fair`, `read`, `write` or `semaphore(3)`{quotes}{hint}"
            );
            Err(syn::Error::new_spanned(value, message))
        }
    }
}

fn limit(call: &ExprCall) -> syn::Result<Limit> {
    let mut values = call.args.iter().cloned().map(ungrouped);
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(syn::Error::new_spanned(
            call,
            "`semaphore` takes the number of permits; write `kind = semaphore(3)`",
        ));
    };
    let wrong = |value| {
        let message =
            "a semaphore has between 1 and 4294967295 permits; write `kind = semaphore(3)`";
        Err(syn::Error::new_spanned(value, message))
    };
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => match number.base10_parse() {
            Ok(0) | Err(_) => wrong(value),
            Ok(limit) => Ok(Limit::Literal(limit)),
        },
        Expr::Lit(_) | Expr::Unary(_) => wrong(value),
        _ => Ok(Limit::Expression(value)),
    }
}

pub(super) fn on_busy(value: Expr) -> syn::Result<OnBusy> {
    let is_fallback = |func: &Expr| word(func).is_some_and(|name| name == "fallback");
    if let Expr::Call(call) = &value
        && is_fallback(&call.func)
    {
        let mut paths = call.args.iter().cloned().map(ungrouped);
        return match (paths.next(), paths.next()) {
            (Some(Expr::Path(path)), None) => Ok(OnBusy::Fallback(path)),
            _ => Err(no_fallback(&value)),
        };
    }
    if is_fallback(&value) {
        return Err(no_fallback(&value));
    }
    match word(&value).map(ToString::to_string).as_deref() {
        Some("error") => Ok(OnBusy::Error),
        Some("skip") => Ok(OnBusy::Skip),
        _ => {
            let quotes = quotes(&value);
            let message = format!("`on_busy` takes `error`, `skip` or `fallback(path)`{quotes}");
            Err(syn::Error::new_spanned(value, message))
        }
    }
}

/// What to say of the value's quotes, if it has any.
fn quotes(value: &Expr) -> &'static str {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => ", without quotes",
        _ => "",
    }
}

fn no_fallback(value: &Expr) -> syn::Error {
    let method = match value {
        Expr::Call(call) => call.args.first().and_then(method),
        _ => None,
    };
    let method = method.unwrap_or_else(|| "from_cache".to_owned());
    let message = format!(
        "`fallback` takes the path of an async function, which gets the same arguments; write \
         `on_busy = fallback(Self::{method})`"
    );
    syn::Error::new_spanned(value, message)
}

/// The name of the method in `self.method` and `self.method(…)`.
fn method(value: &Expr) -> Option<String> {
    match value {
        Expr::Field(field) => match &field.member {
            Member::Named(name) => Some(name.to_string()),
            Member::Unnamed(_) => None,
        },
        Expr::MethodCall(call) => Some(call.method.to_string()),
        _ => None,
    }
}

pub(super) fn on_lost(value: &Expr) -> syn::Result<OnLost> {
    choose("on_lost", value, [("cancel", OnLost::Cancel), ("finish", OnLost::Finish)])
}

pub(super) fn on_release_lost(value: &Expr) -> syn::Result<OnReleaseLost> {
    let choices = [("log", OnReleaseLost::Log), ("error", OnReleaseLost::Error)];
    choose("on_release_lost", value, choices)
}

fn choose<T: Copy>(argument: &str, value: &Expr, choices: [(&str, T); 2]) -> syn::Result<T> {
    let chosen = word(value).and_then(|word| choices.iter().find(|(choice, _)| word == choice));
    chosen.map(|(_, value)| *value).ok_or_else(|| {
        let words = list(choices.map(|(choice, _)| choice), "or");
        let quotes = quotes(value);
        syn::Error::new_spanned(value, format!("`{argument}` takes {words}{quotes}"))
    })
}
