//! The arguments whose value is one of a few words.

use syn::{Expr, ExprCall, ExprLit, ExprPath, Lit, Member};

use super::{ungrouped, word};
use crate::errors::{list, nearest};

/// The kinds that are one word, and their variants of `LockKind`.
const KINDS: [(&str, &str); 4] =
    [("mutex", "Mutex"), ("fair", "Fair"), ("read", "Read"), ("write", "Write")];

pub(crate) enum KindArg {
    /// This variant of `LockKind`.
    Variant(&'static str),
    Semaphore(Limit),
}

/// The number of permits of a semaphore.
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

pub(super) fn kind(value: Expr) -> syn::Result<KindArg> {
    if let Expr::Call(call) = &value
        && word(&call.func).is_some_and(|name| name == "semaphore")
    {
        return limit(call).map(KindArg::Semaphore);
    }
    let given = word(&value).map(ToString::to_string);
    let given = given.as_deref().unwrap_or_default();
    if let Some((_, variant)) = KINDS.iter().find(|(word, _)| *word == given) {
        return Ok(KindArg::Variant(variant));
    }
    if given == "semaphore" {
        let message = "a semaphore has a number of permits; write `kind = semaphore(3)`";
        return Err(syn::Error::new_spanned(value, message));
    }
    let near = nearest(given, KINDS.map(|(word, _)| word).into_iter().chain(["semaphore"]));
    let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let quotes = quotes(&value);
    let message =
        format!("`kind` takes `mutex`, `fair`, `read`, `write` or `semaphore(3)`{quotes}{hint}");
    Err(syn::Error::new_spanned(value, message))
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

/// Returns the advice about the value's quotes, if it has any.
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

/// Returns the variant of `OnLost` for the word.
pub(super) fn on_lost(value: Expr) -> syn::Result<&'static str> {
    choose("on_lost", &value, [("cancel", "Cancel"), ("finish", "Finish")])
}

/// Returns the variant of `OnReleaseLost` for the word.
pub(super) fn on_release_lost(value: Expr) -> syn::Result<&'static str> {
    choose("on_release_lost", &value, [("log", "Log"), ("error", "Error")])
}

fn choose(
    argument: &str,
    value: &Expr,
    choices: [(&str, &'static str); 2],
) -> syn::Result<&'static str> {
    let chosen = word(value).and_then(|word| choices.iter().find(|(choice, _)| word == choice));
    chosen.map(|(_, variant)| *variant).ok_or_else(|| {
        let words = list(choices.map(|(choice, _)| choice), "or");
        let quotes = quotes(value);
        syn::Error::new_spanned(value, format!("`{argument}` takes {words}{quotes}"))
    })
}
