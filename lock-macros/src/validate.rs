//! What the function and the arguments must be to each other.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, Path, ReturnType};

use crate::args::{Args, LeaseArg, Time, WaitArg, word};
use crate::errors::{Errors, nearest};
use crate::item::{Function, Scope};

/// Checks everything that needs no look into the key.
pub(crate) fn check(function: &Function, args: &Args, scope: &Scope, errors: &mut Errors) {
    check_shape(function, errors);
    if args.is_missing("key") {
        let example = scope.names().into_iter().find(|name| name != "self");
        let example = example.map_or("nightly-report".to_owned(), |name| {
            format!("{}:{{{name}}}", function.sig.ident)
        });
        errors.push_at(
            Span::call_site(),
            format!("the lock has no key; write `#[distributed_lock(key = \"{example}\")]`"),
        );
    }
    if let Some(guard) = &args.guard
        && scope.find(&guard.to_string()).is_some()
    {
        errors.push_at(
            guard.span(),
            format!("`guard = {guard}` would hide the argument `{guard}`; choose another name"),
        );
    }
    if let Some(WaitArg::UpTo(Time::Expression(value))) = &args.wait {
        let words = ["none", "forever", "never", "infinite"];
        check_word("wait", value, &words, "`none` or `forever`", scope, errors);
    }
    if let Some(LeaseArg::Fixed(Time::Expression(value))) = &args.lease {
        let words = ["watchdog", "none", "forever", "auto"];
        check_word("lease", value, &words, "`watchdog`", scope, errors);
    }
}

/// A misspelt word would else be reported as a variable that does not exist.
fn check_word(
    argument: &str,
    value: &Expr,
    words: &[&str],
    choices: &str,
    scope: &Scope,
    errors: &mut Errors,
) {
    let Some(word) = word(value).map(ToString::to_string) else { return };
    if scope.find(&word).is_none() && nearest(&word, words.iter().copied()).is_some() {
        let message = format!(
            "`{word}` is neither an argument nor a word of `{argument}`; write {choices}, a text \
             such as `\"10s\"`, or an expression"
        );
        errors.push(syn::Error::new_spanned(value, message));
    }
}

fn check_shape(function: &Function, errors: &mut Errors) {
    let sig = &function.sig;
    let name = &sig.ident;
    if let Some(other) = function.attrs.iter().find(|attr| is_lock(attr.path())) {
        errors.push(syn::Error::new_spanned(
            other,
            "a function takes one `#[distributed_lock]`; lock the second key in a function that \
             this one calls",
        ));
    }
    if let Some(token) = sig.constness {
        errors.push_at(
            token.span,
            format!("a `const fn` cannot wait for a lock; write `async fn {name}`"),
        );
        return;
    }
    if let Some(abi) = &sig.abi {
        errors.push(syn::Error::new_spanned(
            abi,
            "an `extern` function cannot wait for a lock; lock an `async fn` without `extern`",
        ));
        return;
    }
    if function.body.is_none() {
        errors.push_at(
            name.span(),
            format!(
                "`{name}` has no body to lock; put the attribute on the method in each `impl`, or \
                 give this one a body"
            ),
        );
    }
    if sig.asyncness.is_none() {
        let message = if returns_future(&sig.output) {
            format!(
                "`{name}` returns a future without being an `async fn`; write `async fn {name}`, \
                 in traits too (functions under `#[async_trait]` are not supported)"
            )
        } else {
            format!("`{name}` is not async and cannot wait for a lock; write `async fn {name}`")
        };
        errors.push_at(sig.fn_token.span, message);
    }
}

fn is_lock(path: &Path) -> bool {
    path.segments.last().is_some_and(|last| last.ident == "distributed_lock")
}

/// Whether the type says so in words; an alias is not seen, which only costs the better message.
fn returns_future(output: &ReturnType) -> bool {
    fn names_future(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(word) => word.to_string().ends_with("Future"),
            TokenTree::Group(group) => names_future(group.stream()),
            _ => false,
        })
    }
    names_future(output.to_token_stream())
}
