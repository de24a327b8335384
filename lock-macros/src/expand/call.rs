//! One attribute's call of the runtime.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Expr, ReturnType};

use super::site::site;
use super::types::without_impl;
use super::{Keys, anchor, place_of_return, whole};
use crate::args::{Args, KindArg, LeaseArg, Limit, OnBusy, Time, WaitArg};
use crate::item::{Form, Function, Scope};
use crate::template::{Key, Piece, borrow_of, ends};

/// What every part of the generated code needs to know.
pub(super) struct Lock<'a> {
    function: &'a Function,
    scope: &'a Scope,
    args: &'a Args,
    /// Whether the body is the user's own.
    innermost: bool,
    /// The runtime crate as the function sees it.
    pub(super) root: TokenStream,
    /// Our own code: its locals are invisible to the user's, and lints leave it alone.
    here: Span,
}

impl<'a> Lock<'a> {
    pub(super) fn new(
        function: &'a Function,
        scope: &'a Scope,
        args: &'a Args,
        innermost: bool,
    ) -> Self {
        let here = Span::mixed_site();
        let root = match &args.root {
            Some(root) => root.to_token_stream(),
            None => quote_spanned!(here=> ::lock_runtime),
        };
        Self { function, scope, args, innermost, root, here }
    }

    /// What runs `block` under the lock, as the statements of an async body. The call stands where
    /// the return type begins, because its bounds are what the return type has to fulfil.
    pub(super) fn statements(&self, keys: &Keys<'_>, block: &Group) -> TokenStream {
        let root = &self.root;
        let site = site(self.args, &self.function.sig.ident, root);
        let (wanted, place, keys) = self.keys(keys);
        let wanted = Ident::new(wanted, place);
        let there = located_at(root.clone(), place);
        let wanted = quote_spanned!(place=> #there::private::v1::CallSpec::#wanted(#site, #keys));
        let settings = self.settings();
        let here = self.here.located_at(place_of_return(self.function));
        let root_there = located_at(root.clone(), here);
        let entry = match self.args.on_busy {
            Some(OnBusy::Skip) => quote_spanned!(here=> locked_or_skip),
            Some(OnBusy::Error | OnBusy::Fallback(_)) | None => quote_spanned!(here=> locked),
        };
        let (adapter, body) = self.body(block);
        let adapter = Ident::new(adapter, here);
        // The keys in a statement of their own: what they borrow is free before the body moves it.
        let wanted = quote_spanned! {self.here=>
            let __lock_wanted = #wanted #settings;
        };
        let call = quote_spanned! {here=>
            #root_there::private::v1::#entry(__lock_wanted, #root_there::private::v1::#adapter(#body)).await
        };
        quote_spanned!(self.here=> #wanted #call)
    }

    /// The function that takes the keys, where it stands, and the keys.
    fn keys(&self, keys: &Keys<'_>) -> (&'static str, Span, TokenStream) {
        match keys {
            Keys::One(key) => ("new", self.here, self.key(key)),
            Keys::All(keys) => {
                let keys = keys.iter().map(|key| self.key(key));
                ("all", self.here, quote_spanned!(self.here=> [#(#keys),*]))
            }
            // What the elements of a list have to be is reported there.
            Keys::AllOf(value) => {
                ("all", self.here.located_at(ends(value).0), self.scope.see(value))
            }
        }
    }

    fn key(&self, key: &Key) -> TokenStream {
        let root = &self.root;
        let pieces = match key {
            Key::Expression(value) => {
                return quote_spanned!(self.here=> #root::key::IntoLockKey::into_lock_key(#value));
            }
            Key::Pieces(pieces) => pieces.iter().map(|piece| match piece {
                Piece::Text(text) => quote_spanned!(self.here=> .text(#text)),
                Piece::Part { borrow, raw: false } => quote_spanned!(self.here=> .part(#borrow)),
                Piece::Part { borrow, raw: true } => quote_spanned!(self.here=> .raw(#borrow)),
            }),
        };
        quote_spanned!(self.here=> #root::LockKey::builder() #(#pieces)* .build())
    }

    /// What only the call knows: the values of expressions.
    fn settings(&self) -> TokenStream {
        let root = &self.root;
        let mut settings = TokenStream::new();
        let mut set = |name: &str, value: TokenStream| {
            let name = Ident::new(name, self.here);
            settings.extend(quote_spanned!(self.here=> .#name(#value)));
        };
        if let Some(client) = &self.args.client {
            set("client", borrow_of(&self.scope.see(client)));
        }
        if let Some(when) = &self.args.when {
            set("when", self.scope.see(when));
        }
        if let Some(KindArg::Semaphore(Limit::Expression(limit))) = &self.args.kind {
            set("semaphore", self.scope.see(limit));
        }
        if let Some(WaitArg::UpTo(Time::Expression(wait))) = &self.args.wait {
            set("wait", self.scope.see(wait));
        }
        let lease = match &self.args.lease {
            Some(LeaseArg::Watchdog(Some(Time::Expression(lease)))) => Some(("Watchdog", lease)),
            Some(LeaseArg::Fixed(Time::Expression(lease))) => Some(("Fixed", lease)),
            _ => None,
        };
        if let Some((kind, lease)) = lease {
            let (kind, lease) = (Ident::new(kind, self.here), self.scope.see(lease));
            set("lease", quote_spanned!(self.here=> #root::Lease::#kind(#lease)));
        }
        for (name, time) in [("at_least", &self.args.at_least), ("max_hold", &self.args.max_hold)] {
            if let Some(Time::Expression(time)) = time {
                set(name, self.scope.see(time));
            }
        }
        settings
    }

    /// The body as a future, and the function that hands it to the runtime.
    fn body(&self, block: &Group) -> (&'static str, TokenStream) {
        let anchor = anchor(self.function, self.scope, self.innermost, &self.root);
        let block = self.future(block);
        match (&self.args.on_busy, &self.args.guard) {
            (Some(OnBusy::Fallback(path)), None) => {
                let busy = self.fallback(path);
                let body = quote_spanned! {self.here=>
                    move |__lock_busy| async move {
                        #anchor
                        match __lock_busy { false => #block true => #busy }
                    }
                };
                ("plain_or", body)
            }
            (Some(OnBusy::Fallback(path)), Some(name)) => {
                let busy = self.fallback(path);
                let body = quote_spanned! {self.here=>
                    move |__lock_guard| async move {
                        #anchor
                        match ::core::option::Option::as_deref(&__lock_guard) {
                            ::core::option::Option::Some(#name) => #block
                            ::core::option::Option::None => #busy
                        }
                    }
                };
                ("with_guard_or", body)
            }
            (_, Some(name)) => {
                // By the user's name, so that the compiler speaks of that where the hold would outlive the
                // call, as in a spawned task.
                let owned = Ident::new(&name.to_string(), self.here.located_at(name.span()));
                let body = quote_spanned! {self.here=>
                    move |__lock_guard| async move {
                        #anchor
                        let #owned = __lock_guard;
                        match &*#owned { #name => #block }
                    }
                };
                ("with_guard", body)
            }
            (_, None) => {
                // The arm of a `match`: in any other place the compiler would find the braces of a
                // one-line body superfluous, or items in it late.
                let body = quote_spanned! {self.here=>
                    async move { #anchor match () { () => #block } }
                };
                ("plain", body)
            }
        }
    }

    /// The block as an expression of the body's value. Where the user's own evaluates to a future,
    /// that is awaited here, so that nothing of it runs before the lock is held.
    fn future(&self, block: &Group) -> TokenStream {
        let Form::Future { boxed } = self.function.form else { return block.to_token_stream() };
        if !self.innermost {
            return block.to_token_stream();
        }
        let root = &self.root;
        let ty = match &self.function.sig.output {
            ReturnType::Type(arrow, ty) if boxed => {
                let ty = without_impl(ty);
                Some(quote_spanned!(self.here=> #arrow #ty))
            }
            _ => None,
        };
        // What is wrong with that future is reported there.
        let here = self.here.located_at(block.span());
        let root = located_at(root.clone(), here);
        let whole = whole(self.function, self.scope, &self.root);
        let call = match whole.is_empty() {
            true => block.to_token_stream(),
            false => quote_spanned!(self.here=> { if false { #whole } match () { () => #block } }),
        };
        quote_spanned!(here=> { #root::private::v1::future(move || #ty #call).await })
    }

    fn fallback(&self, path: &syn::ExprPath) -> TokenStream {
        let arguments = self.function.arguments(self.scope).unwrap_or_default();
        let path = self.scope.see(&Expr::Path(path.clone()));
        let here = self.here.located_at(ends(&path).0);
        let root = located_at(self.root.clone(), here);
        quote_spanned!(here=> { #root::private::v1::instead(#path(#(#arguments),*)).await })
    }
}

/// The same tokens, reported at `place`.
fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    moved.collect()
}
