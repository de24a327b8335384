//! The constant description of an attribute: where it stands and what it says in words and literals.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;

use crate::args::{
    Args, KeyArg, KeyForm, KindArg, LeaseArg, Limit, OnLost, OnReleaseLost, Time, WaitArg,
};

/// `site!("pay", "order:{id}", with_wait(…), …)`, silent about what the attribute leaves out.
pub(super) fn site(args: &Args, function: &Ident, root: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let name = function.unraw().to_string();
    let key = args.key.as_ref().map(key_text).unwrap_or_default();
    let said = said(args, root).into_iter().map(|(name, value)| {
        let with = Ident::new(&format!("with_{name}"), here);
        quote_spanned!(here=> , #with(#value))
    });
    quote_spanned!(here=> #root::private::v1::site!(#name, #key #(#said)*))
}

/// A setting's name and value.
type Said = (&'static str, TokenStream);

/// What the attribute says that a constant can hold, by name of the setting.
fn said(args: &Args, root: &TokenStream) -> Vec<Said> {
    let here = Span::mixed_site();
    let mut said = Vec::new();
    if let Some(policy) = &args.policy {
        let name = policy.value();
        said.push(("policy", quote_spanned!(here=> #name)));
    }
    if let Some(kind) = args.kind.as_ref().and_then(|kind| self::kind(kind, root)) {
        said.push(("kind", kind));
    }
    said.extend(args.wait.as_ref().and_then(|wait| self::wait(wait, root)));
    said.extend(args.lease.as_ref().and_then(|lease| self::lease(lease, root)));
    if let Some(on_lost) = args.on_lost {
        let word = match on_lost {
            OnLost::Cancel => "Cancel",
            OnLost::Finish => "Finish",
        };
        said.push(("on_lost", variant("OnLost", word, &quote_spanned!(here=> #root::options))));
    }
    if let Some(on_release_lost) = args.on_release_lost {
        let word = match on_release_lost {
            OnReleaseLost::Log => "Log",
            OnReleaseLost::Error => "Error",
        };
        said.push((
            "on_release_lost",
            variant("OnReleaseLost", word, &quote_spanned!(here=> #root::options)),
        ));
    }
    for (name, time) in [("at_least", &args.at_least), ("max_hold", &args.max_hold)] {
        if let Some(Time::Literal(time)) = time {
            said.push((name, duration(*time)));
        }
    }
    said
}

fn variant(of: &str, word: &str, root: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let (of, word) = (Ident::new(of, here), Ident::new(word, here));
    quote_spanned!(here=> #root::#of::#word)
}

fn kind(kind: &KindArg, root: &TokenStream) -> Option<TokenStream> {
    let here = Span::mixed_site();
    let word = match kind {
        KindArg::Mutex => "Mutex",
        KindArg::Fair => "Fair",
        KindArg::Read => "Read",
        KindArg::Write => "Write",
        KindArg::Semaphore(Limit::Literal(limit)) => {
            return Some(quote_spanned!(here=> #root::private::v1::semaphore(#limit)));
        }
        KindArg::Semaphore(Limit::Expression(_)) => return None,
    };
    Some(variant("LockKind", word, root))
}

fn wait(wait: &WaitArg, root: &TokenStream) -> Option<Said> {
    Some(match wait {
        WaitArg::Never => ("wait", variant("Wait", "Never", root)),
        WaitArg::Forever => ("wait", variant("Wait", "Forever", root)),
        WaitArg::UpTo(time) => ("wait_up_to", duration(time.literal()?)),
    })
}

fn lease(lease: &LeaseArg, root: &TokenStream) -> Option<Said> {
    Some(match lease {
        LeaseArg::Watchdog(None) => {
            ("lease", quote_spanned!(Span::mixed_site()=> #root::private::v1::WATCHDOG))
        }
        LeaseArg::Watchdog(Some(time)) => ("lease_watchdog", duration(time.literal()?)),
        LeaseArg::Fixed(time) => ("lease_fixed", duration(time.literal()?)),
    })
}

/// Seconds and nanoseconds.
fn duration(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote_spanned!(Span::mixed_site()=> #seconds, #nanos)
}

/// The key as it was written.
fn key_text(key: &KeyArg) -> String {
    let form = |form: &KeyForm| match form {
        KeyForm::Template(text) | KeyForm::Filled(text, _) => text.value(),
        KeyForm::Expression(value) => value.to_token_stream().to_string(),
    };
    match key {
        KeyArg::One(one) => form(one),
        KeyArg::All(all) => all.iter().map(form).collect::<Vec<_>>().join(", "),
        KeyArg::AllOf(value) => value.to_token_stream().to_string(),
    }
}
