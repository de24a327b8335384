//! One attribute's call of the runtime.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Expr, ReturnType};

use super::site::{Settings, site};
use super::types::without_impl;
use super::{Keys, anchor, place_of_return, whole};
use crate::args::{Args, OnBusy};
use crate::item::{Form, Function, Scope};
use crate::template::{Key, Piece, borrow_of, ends};

/// One attribute, in the form that all parts of its expansion need.
pub(super) struct Lock<'a> {
    function: &'a Function,
    scope: &'a Scope,
    args: &'a Args,
    /// True if the body is the user's own and not that of another attribute.
    innermost: bool,
    /// The runtime crate as the function sees it.
    pub(super) root: TokenStream,
    /// The span of generated code: the user's code cannot name its locals, and lints skip it.
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

    /// Returns statements for an async body that run `block` under the lock. The span of the call is where the
    /// return type begins, because the compiler reports there that the return type does not meet the call's bounds.
    pub(super) fn statements(&self, keys: &Keys<'_>, block: &Group) -> TokenStream {
        let root = &self.root;
        let settings = Settings::new(self.args, root);
        let site = site(self.args, &self.function.sig.ident, &settings.constants, root);
        let (constructor, place, keys) = self.keys(keys);
        let constructor = Ident::new(constructor, place);
        let there = located_at(root.clone(), place);
        let spec =
            quote_spanned!(place=> #there::private::v1::CallSpec::#constructor(#site, #keys));
        let settings = self.settings(&settings);
        let here = self.here.located_at(place_of_return(self.function));
        let root_there = located_at(root.clone(), here);
        let skips = matches!(self.args.on_busy, Some(OnBusy::Skip));
        let entry = match (self.is_plain(), skips) {
            (false, false) => "locked",
            (false, true) => "locked_or_skip",
            (true, false) => "called",
            (true, true) => "called_or_skip",
        };
        let entry = Ident::new(entry, here);
        let (adapter, body) = match self.is_plain() {
            true => self.plain_body(block),
            false => self.body(block),
        };
        let adapter = Ident::new(adapter, here);
        // A statement of its own, so that the borrows of the keys end before the body moves the arguments.
        let spec = quote_spanned! {self.here=>
            let __lock_spec = #spec #settings;
        };
        let wait = (!self.is_plain()).then(|| quote_spanned!(here=> .await));
        let call = quote_spanned! {here=>
            #root_there::private::v1::#entry(__lock_spec, #root_there::private::v1::#adapter(#body)) #wait
        };
        quote_spanned!(self.here=> #spec #call)
    }

    /// True if the function is not async.
    fn is_plain(&self) -> bool {
        matches!(self.function.form, Form::Sync)
    }

    /// Returns the constructor of `CallSpec` for these keys, the span of that call, and the keys.
    fn keys(&self, keys: &Keys<'_>) -> (&'static str, Span, TokenStream) {
        match keys {
            Keys::One(key) => ("new", self.here, self.key(key)),
            Keys::All(keys) => {
                let keys = keys.iter().map(|key| self.key(key));
                ("all", self.here, quote_spanned!(self.here=> [#(#keys),*]))
            }
            // The compiler reports at the expression that its elements are no keys.
            Keys::AllOf(value) => {
                ("all", self.here.located_at(ends(value).0), self.scope.rename_self(value))
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

    /// Returns the method calls for the values that only the call knows: those of expressions.
    fn settings(&self, settings: &Settings<'_>) -> TokenStream {
        let mut calls = TokenStream::new();
        let mut set = |name: &str, value: TokenStream| {
            let name = Ident::new(name, self.here);
            calls.extend(quote_spanned!(self.here=> .#name(#value)));
        };
        if let Some(client) = &self.args.client {
            set("client", borrow_of(&self.scope.rename_self(client)));
        }
        if let Some(when) = &self.args.when {
            set("when", self.scope.rename_self(when));
        }
        for (name, value, variant) in &settings.expressions {
            let value = self.scope.rename_self(value);
            set(
                name,
                match variant {
                    Some(variant) => quote_spanned!(self.here=> #variant(#value)),
                    None => value,
                },
            );
        }
        calls
    }

    /// Returns the function of the runtime that takes the body, and the body.
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
                // Has the user's name, which the compiler shows if the body would keep the guard for longer than
                // the call, as in a spawned task.
                let mut owned = name.clone();
                owned.set_span(self.here.located_at(name.span()));
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
                // An arm of a `match`, because elsewhere lints would report unnecessary braces around a one-line
                // body, or items after statements.
                let body = quote_spanned! {self.here=>
                    async move { #anchor match () { () => #block } }
                };
                ("plain", body)
            }
        }
    }

    /// The same for a plain function.
    fn plain_body(&self, block: &Group) -> (&'static str, TokenStream) {
        let anchor = anchor(self.function, self.scope, self.innermost, &self.root);
        match (&self.args.on_busy, &self.args.guard) {
            (Some(OnBusy::Fallback(path)), None) => {
                let busy = self.plain_fallback(path);
                let body = quote_spanned! {self.here=>
                    move |__lock_busy| { #anchor match __lock_busy { false => #block true => #busy } }
                };
                ("function_or", body)
            }
            (Some(OnBusy::Fallback(path)), Some(name)) => {
                let busy = self.plain_fallback(path);
                let body = quote_spanned! {self.here=>
                    move |__lock_guard| {
                        #anchor
                        match __lock_guard {
                            ::core::option::Option::Some(#name) => #block
                            ::core::option::Option::None => #busy
                        }
                    }
                };
                ("function_with_guard_or", body)
            }
            (_, Some(name)) => {
                // Has the user's name, which the compiler shows if the body would keep the guard for longer than
                // the call.
                let mut borrowed = name.clone();
                borrowed.set_span(self.here.located_at(name.span()));
                let body = quote_spanned! {self.here=>
                    move |#borrowed| { #anchor match #borrowed { #name => #block } }
                };
                ("function_with_guard", body)
            }
            (_, None) => {
                let body = quote_spanned! {self.here=>
                    move || { #anchor match () { () => #block } }
                };
                ("function", body)
            }
        }
    }

    /// Returns the block as an expression whose value is that of the body. If the user's block evaluates to a future,
    /// the expression awaits it, so that no part of the block runs before the lock is held.
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
        // The compiler reports there if the block is no future.
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
        let (here, call) = self.fallback_call(path);
        let root = located_at(self.root.clone(), here);
        quote_spanned!(here=> { #root::private::v1::instead(#call).await })
    }

    fn plain_fallback(&self, path: &syn::ExprPath) -> TokenStream {
        let (here, call) = self.fallback_call(path);
        quote_spanned!(here=> { #call })
    }

    /// Returns the call of the fallback with the function's arguments, and where it is written.
    fn fallback_call(&self, path: &syn::ExprPath) -> (Span, TokenStream) {
        let arguments = self.function.arguments(self.scope).unwrap_or_default();
        let path = self.scope.rename_self(&Expr::Path(path.clone()));
        let here = self.here.located_at(ends(&path).0);
        (here, quote_spanned!(here=> #path(#(#arguments),*)))
    }
}

/// Returns the tokens with spans at which errors are reported at `place`.
fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    moved.collect()
}
