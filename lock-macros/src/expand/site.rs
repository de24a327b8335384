//! The settings of an attribute: words and literals become part of the constant description of its site, and
//! the call evaluates expressions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt as _;

use crate::args::{Args, KeyArg, KeyForm, KindArg, LeaseArg, Limit, Time, WaitArg};

/// `site!("pay", "order:{id}", None, wait = …, …)`, without the settings that the attribute omits.
pub(super) fn site(
    args: &Args,
    function: &Ident,
    constants: &[(&'static str, TokenStream)],
    root: &TokenStream,
) -> TokenStream {
    let here = Span::mixed_site();
    let name = function.unraw().to_string();
    let key = args.key.as_ref().map(key_text).unwrap_or_default();
    let policy = match args.policy.as_ref().map(syn::LitStr::value) {
        Some(policy) => quote_spanned!(here=> ::core::option::Option::Some(#policy)),
        None => quote_spanned!(here=> ::core::option::Option::None),
    };
    let settings = constants.iter().map(|(name, value)| {
        let name = Ident::new(name, here);
        quote_spanned!(here=> , #name = #value)
    });
    quote_spanned!(here=> #root::private::v1::site!(#name, #key, #policy #(#settings)*))
}

/// The settings of an attribute, by name.
#[derive(Default)]
pub(super) struct Settings<'a> {
    /// The settings that a constant can hold.
    pub(super) constants: Vec<(&'static str, TokenStream)>,
    /// The settings that only the call knows: an expression, and the variant that its value goes into.
    pub(super) expressions: Vec<(&'static str, &'a Expr, Option<TokenStream>)>,
}

impl<'a> Settings<'a> {
    pub(super) fn new(args: &'a Args, root: &TokenStream) -> Self {
        let here = Span::mixed_site();
        let in_options = quote_spanned!(here=> #root::options);
        let variant_in = |root: &TokenStream, of: &str, word: &str| {
            let (of, word) = (Ident::new(of, here), Ident::new(word, here));
            quote_spanned!(here=> #root::#of::#word)
        };
        let variant = |of: &str, word: &str| variant_in(root, of, word);
        let mut settings = Self::default();
        match &args.kind {
            None => {}
            Some(KindArg::Variant(word)) => settings.constant("kind", variant("LockKind", word)),
            Some(KindArg::Semaphore(Limit::Literal(limit))) => {
                settings
                    .constant("kind", quote_spanned!(here=> #root::private::v1::semaphore(#limit)));
            }
            Some(KindArg::Semaphore(Limit::Expression(limit))) => {
                settings.expressions.push(("semaphore", limit, None));
            }
        }
        match &args.wait {
            None => {}
            Some(WaitArg::Never) => settings.constant("wait", variant("Wait", "None")),
            Some(WaitArg::Forever) => settings.constant("wait", variant("Wait", "Forever")),
            // A value that is not a duration may be a `Wait`.
            Some(WaitArg::UpTo(Time::Expression(wait))) => {
                settings.expressions.push(("wait", wait, None));
            }
            Some(WaitArg::UpTo(wait)) => settings.time("wait", wait, Some(variant("Wait", "UpTo"))),
        }
        match &args.lease {
            None => {}
            Some(LeaseArg::Watchdog(None)) => {
                settings.constant("lease", quote_spanned!(here=> #root::private::v1::WATCHDOG));
            }
            Some(LeaseArg::Watchdog(Some(lease))) => {
                settings.time("lease", lease, Some(variant("Lease", "Watchdog")));
            }
            Some(LeaseArg::Fixed(lease)) => {
                settings.time("lease", lease, Some(variant("Lease", "Fixed")));
            }
        }
        if let Some(word) = args.on_lost {
            settings.constant("on_lost", variant_in(&in_options, "OnLost", word));
        }
        if let Some(word) = args.on_release_lost {
            settings.constant("on_release_lost", variant_in(&in_options, "OnReleaseLost", word));
        }
        let times = [&args.at_least, &args.max_hold, &args.release_timeout];
        for (name, time) in ["at_least", "max_hold", "release_timeout"].into_iter().zip(times) {
            time.iter().for_each(|time| settings.time(name, time, None));
        }
        settings
    }

    fn constant(&mut self, name: &'static str, value: TokenStream) {
        self.constants.push((name, value));
    }

    /// A duration, in the variant that it goes into.
    fn time(&mut self, name: &'static str, time: &'a Time, variant: Option<TokenStream>) {
        let here = Span::mixed_site();
        let (seconds, nanos) = match time {
            Time::Expression(value) => return self.expressions.push((name, value, variant)),
            Time::Literal(duration) => (duration.as_secs(), duration.subsec_nanos()),
        };
        let value = quote_spanned!(here=> ::core::time::Duration::new(#seconds, #nanos));
        self.constant(
            name,
            match variant {
                Some(variant) => quote_spanned!(here=> #variant(#value)),
                None => value,
            },
        );
    }
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
