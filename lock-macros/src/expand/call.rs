//! One attribute's call of the runtime.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Expr, ExprPath, ReturnType};

use super::site::{Settings, site};
use super::types::without_impl;
use super::{Keys, anchor, error_of, places, whole};
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
        let (place_of_return, place_of_error) = places(self.function);
        let here = self.here.located_at(place_of_return);
        let root_there = located_at(root.clone(), here);
        let entry = Ident::new(if self.is_plain() { "called" } else { "locked" }, here);
        let body = self.body(block);
        let returns = self.returns(here, self.here.located_at(place_of_error));
        // A statement of its own, so that the borrows of the keys end before the body moves the arguments.
        let spec = match self.sees_lock() {
            false => quote_spanned!(self.here=> let __lock_spec = #spec #settings;),
            true => quote_spanned! {self.here=>
                let (__lock_spec, __lock_view) = #spec #settings.with_view();
            },
        };
        let wait = (!self.is_plain()).then(|| quote_spanned!(here=> .await));
        let call = quote_spanned! {here=>
            #root_there::private::v1::#entry(__lock_spec, #body, #returns) #wait
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

    /// Returns the method calls for the values that only the call knows: those of expressions, and what its body asks for.
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
        if self.args.guard.is_some() {
            set("names_guard", TokenStream::new());
        }
        if self.fallback_path().is_some() {
            set("has_fallback", TokenStream::new());
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

    /// Returns what a failed lock becomes. The compiler reports at `here` that it is not the return type, and at `there` that
    /// the error in that type is not made from a `LockError`.
    fn returns(&self, here: Span, there: Span) -> TokenStream {
        let skips = matches!(self.args.on_busy, Some(OnBusy::Skip));
        // Not all results can say "skipped", so that their errors are not the place for all.
        let (of, there) = if skips { ("SkipReturn", here) } else { ("ErrorReturn", there) };
        let of = Ident::new(of, here);
        let [root, error_root] = [here, there].map(|place| located_at(self.root.clone(), place));
        let error = match &self.args.map_err {
            Some(path) => self.map_err(path, there),
            None => {
                quote_spanned!(there=> #error_root::private::v1::FromLockError::from_lock_error)
            }
        };
        quote_spanned!(here=> #root::private::v1::#of::returns(#error))
    }

    /// Returns `map_err` as a function of the type that the signature asks for, with which the compiler compares it.
    fn map_err(&self, path: &ExprPath, there: Span) -> TokenStream {
        let root = located_at(self.root.clone(), there);
        let output = self.function.output();
        let error = output.as_ref().and_then(error_of).map(without_impl);
        let error = error.unwrap_or_else(|| quote_spanned!(there=> _));
        // The compiler reports here that the return type has no place for an error.
        let here = self.here.located_at(ends(path).0);
        let path = self.scope.rename_self(&Expr::Path(path.clone()));
        // An alias: in the type of a function, a lifetime without a name would be the caller's to name.
        let function = quote_spanned!(there=> #root::private::v1::MapErr<#error>);
        quote_spanned!(here=> {
            let __lock_map_err: #function = #path;
            __lock_map_err
        })
    }

    /// Returns the body, which looks at what the attribute names.
    fn body(&self, block: &Group) -> TokenStream {
        let (here, guard) = (self.here, &self.args.guard);
        // Has the user's name, which the compiler shows if the body would keep the guard for longer than the call, as
        // in a spawned task.
        let mut view = guard.clone().unwrap_or_else(|| Ident::new("__lock_view", here));
        view.set_span(here.located_at(view.span()));
        // The compiler reports there if the guard would be kept for too long.
        let there = view.span();
        let (seen, name) = match (guard, &self.args.when) {
            (None, _) => (quote_spanned!(here=> ()), quote_spanned!(here=> ())),
            (Some(name), None) => (quote_spanned!(there=> #view.held()), name.to_token_stream()),
            (Some(name), Some(_)) => {
                (quote_spanned!(there=> #view.guard()), name.to_token_stream())
            }
        };
        let block = self.future(block);
        // An arm of a `match`, because elsewhere lints would report unnecessary braces around a one-line body, or
        // items after statements.
        let run = quote_spanned!(here=> match #seen { #name => #block });
        let run = match self.fallback_path().map(|path| self.fallback(path)) {
            None => run,
            Some(fallback) => quote_spanned! {here=>
                match #view.is_busy() { false => #run, true => #fallback }
            },
        };
        let anchor = anchor(self.function, self.scope, self.innermost, &self.root);
        let bind = self.sees_lock().then(|| quote_spanned!(here=> let #view = __lock_view;));
        match self.is_plain() {
            true => quote_spanned!(here=> move || { #anchor #bind #run }),
            false => quote_spanned!(here=> async move { #anchor #bind #run }),
        }
    }

    /// True if the body needs a view of its lock.
    fn sees_lock(&self) -> bool {
        self.args.guard.is_some() || self.fallback_path().is_some()
    }

    fn fallback_path(&self) -> Option<&ExprPath> {
        match &self.args.on_busy {
            Some(OnBusy::Fallback(path)) => Some(path),
            _ => None,
        }
    }

    /// Returns the block as an expression whose value is that of the body. If the user's block evaluates to a future,
    /// the expression awaits it, so that no part of the block runs before the lock is held.
    fn future(&self, block: &Group) -> TokenStream {
        let Form::Future { boxed } = self.function.form else { return block.to_token_stream() };
        if !self.innermost {
            return block.to_token_stream();
        }
        let ty = match &self.function.sig.output {
            ReturnType::Type(arrow, ty) if boxed => {
                let ty = without_impl(ty);
                Some(quote_spanned!(self.here=> #arrow #ty))
            }
            _ => None,
        };
        // The compiler reports there if the block is no future.
        let here = self.here.located_at(block.span());
        let root = located_at(self.root.clone(), here);
        let whole = whole(self.function, self.scope);
        let call = match whole.is_empty() {
            true => block.to_token_stream(),
            false => quote_spanned!(self.here=> { if false { #whole } match () { () => #block } }),
        };
        quote_spanned!(here=> { #root::private::v1::future(move || #ty #call).await })
    }

    /// Returns the call of the fallback with the function's arguments.
    fn fallback(&self, path: &ExprPath) -> TokenStream {
        let arguments = self.function.arguments(self.scope).unwrap_or_default();
        let path = self.scope.rename_self(&Expr::Path(path.clone()));
        let here = self.here.located_at(ends(&path).0);
        let call = quote_spanned!(here=> #path(#(#arguments),*));
        match self.is_plain() {
            true => quote_spanned!(here=> { #call }),
            false => {
                quote_spanned!(here=> { ::core::future::IntoFuture::into_future(#call).await })
            }
        }
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
