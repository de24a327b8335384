//! The expansion: the key is built, then *one* call of the runtime gets the body as a future.
//!
//! No policy is generated. A default is what the runtime makes of a setting that is not there.

use std::time::Duration;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{GenericArgument, PathArguments, ReturnType, Type};

use crate::args::{Args, KeyArg, LeaseArg, OnBusy, OnLost, Time, WaitArg};
use crate::errors::Errors;
use crate::item::{Body, Function};
use crate::template::{self, Piece, borrow_of, ends};
use crate::validate;

/// Expands the attribute. An item that cannot be locked is emitted as it was, behind the errors,
/// so that nothing else breaks with it.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let Some(function) = errors.keep(Function::parse(item.clone())) else {
        let errors = errors.into_compile_error();
        return quote!(#errors #item);
    };
    let scope = function.scope();
    validate::check(&function, &args, &scope, &mut errors);
    let pieces = match &args.key {
        Some(KeyArg::Template(text)) => errors.keep(template::named(text, &scope)),
        Some(KeyArg::Filled(text, values)) => errors.keep(template::filled(text, values)),
        Some(KeyArg::Expression(_)) | None => None,
    };
    match (errors.into_compile_error(), &args.key, &function.body) {
        (None, Some(key), Some(body)) => {
            Expansion::new(&function, &args).generate(key, &pieces.unwrap_or_default(), body)
        }
        (errors, ..) => quote!(#errors #item),
    }
}

/// What every part of the generated code needs to know.
struct Expansion<'a> {
    function: &'a Function,
    args: &'a Args,
    /// The runtime crate as the function sees it.
    root: TokenStream,
    /// Our own code: its locals are invisible to the user's, and lints leave it alone.
    here: Span,
}

impl<'a> Expansion<'a> {
    fn new(function: &'a Function, args: &'a Args) -> Self {
        let here = Span::mixed_site();
        let root = match &args.root {
            Some(root) => root.to_token_stream(),
            None => quote_spanned!(here=> ::lock_runtime),
        };
        Self { function, args, root, here }
    }

    fn generate(&self, key: &KeyArg, pieces: &[Piece], body: &Body) -> TokenStream {
        let Function { attrs, vis, sig, .. } = self.function;
        let inner_attrs = &body.inner_attrs;
        let site = self.site(key);
        let key = self.key(key, pieces);
        let settings = self.settings();
        let call = self.call(&body.block);
        let statements = quote_spanned! {self.here=>
            #(#inner_attrs)*
            #site
            let __lock_key = #key;
            let __lock_settings = #settings;
            #call
        };
        let mut block = Group::new(Delimiter::Brace, statements);
        block.set_span(body.block.span());
        quote!(#(#attrs)* #vis #sig #block)
    }

    /// The constant description of the annotated function.
    fn site(&self, key: &KeyArg) -> TokenStream {
        let root = &self.root;
        let name = self.function.sig.ident.to_string();
        let key = match key {
            KeyArg::Template(text) | KeyArg::Filled(text, _) => text.value(),
            KeyArg::Expression(value) => value.to_token_stream().to_string(),
        };
        quote_spanned! {self.here=>
            static __LOCK_SITE: #root::private::LockSite = #root::private::LockSite {
                name: ::core::concat!(::core::module_path!(), "::", #name),
                key: #key,
                file: ::core::file!(),
                line: ::core::line!(),
            };
        }
    }

    fn key(&self, key: &KeyArg, pieces: &[Piece]) -> TokenStream {
        let root = &self.root;
        if let KeyArg::Expression(value) = key {
            return quote_spanned!(self.here=> #root::private::key(#value));
        }
        let pieces = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => {
                quote_spanned!(self.here=> #root::private::Piece::Text(#text))
            }
            Piece::Part { borrow, raw } => {
                let kind = Ident::new(if *raw { "Raw" } else { "Part" }, self.here);
                quote_spanned!(self.here=> #root::private::Piece::#kind(#borrow))
            }
        });
        quote_spanned!(self.here=> #root::private::template(&[#(#pieces),*]))
    }

    /// What was said and what was not; the runtime knows what to do about the latter.
    fn settings(&self) -> TokenStream {
        let root = &self.root;
        let client = self.optional(self.args.client.as_ref().map(|client| {
            let client = borrow_of(client);
            quote_spanned!(self.here=> #root::private::client(#client))
        }));
        let wait = self.optional(self.args.wait.as_ref().map(|wait| self.wait(wait)));
        let lease = self.optional(self.args.lease.as_ref().map(|lease| self.lease(lease)));
        let on_lost = match self.args.on_lost {
            Some(OnLost::Cancel) => quote_spanned!(self.here=> #root::OnLost::Cancel),
            Some(OnLost::Finish) => quote_spanned!(self.here=> #root::OnLost::Finish),
            None => quote_spanned!(self.here=> ::core::default::Default::default()),
        };
        quote_spanned! {self.here=>
            #root::private::Settings {
                client: #client,
                wait: #wait,
                lease: #lease,
                on_lost: #on_lost,
            }
        }
    }

    fn optional(&self, value: Option<TokenStream>) -> TokenStream {
        match value {
            Some(value) => quote_spanned!(self.here=> ::core::option::Option::Some(#value)),
            None => quote_spanned!(self.here=> ::core::option::Option::None),
        }
    }

    fn wait(&self, wait: &WaitArg) -> TokenStream {
        let root = &self.root;
        match wait {
            WaitArg::Never => quote_spanned!(self.here=> #root::Wait::Never),
            WaitArg::Forever => quote_spanned!(self.here=> #root::Wait::Forever),
            WaitArg::UpTo(Time::Literal(limit)) => {
                let limit = self.duration(*limit);
                quote_spanned!(self.here=> #root::Wait::UpTo(#limit))
            }
            WaitArg::UpTo(Time::Expression(value)) => {
                quote_spanned!(self.here=> ::core::convert::Into::<#root::Wait>::into(#value))
            }
        }
    }

    fn lease(&self, lease: &LeaseArg) -> TokenStream {
        let root = &self.root;
        let (kind, time) = match lease {
            LeaseArg::Watchdog(None) => {
                return quote_spanned!(self.here=> #root::Lease::default());
            }
            LeaseArg::Watchdog(Some(time)) => ("Watchdog", time),
            LeaseArg::Fixed(time) => ("Fixed", time),
        };
        let kind = Ident::new(kind, self.here);
        let time = match time {
            Time::Literal(time) => self.duration(*time),
            Time::Expression(value) => value.to_token_stream(),
        };
        quote_spanned!(self.here=> #root::Lease::#kind(#time))
    }

    fn duration(&self, duration: Duration) -> TokenStream {
        let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
        quote_spanned!(self.here=> ::core::time::Duration::new(#seconds, #nanos))
    }

    /// The call of the runtime. It stands where the return type begins, because its bounds are what
    /// the return type has to fulfil. All of it has that one span: a bound that fails both in the
    /// call and in its `.await` is then reported once.
    fn call(&self, block: &Group) -> TokenStream {
        let sig = &self.function.sig;
        let place = match &sig.output {
            ReturnType::Default => sig.ident.span(),
            ReturnType::Type(_, ty) => ends(ty).0,
        };
        let here = self.here.located_at(place);
        let root = located_at(self.root.clone(), place);
        let entry = match self.args.on_busy {
            Some(OnBusy::Skip) => quote_spanned!(here=> locked_or_skip),
            Some(OnBusy::Error) | None => quote_spanned!(here=> locked),
        };
        let (adapter, body) = self.body(block);
        let adapter = Ident::new(adapter, here);
        quote_spanned! {here=>
            #root::private::#entry(
                &__LOCK_SITE,
                __lock_key,
                __lock_settings,
                #root::private::#adapter(#body),
            )
            .await
        }
    }

    /// The body as a future, and the function that hands it to the runtime.
    ///
    /// The user's block is the arm of a `match`, with or without a name to bind: in any other place
    /// the compiler would find the braces of a one-line body superfluous, or items in it late.
    fn body(&self, block: &Group) -> (&'static str, TokenStream) {
        let anchor = self.anchor();
        match &self.args.guard {
            None => {
                let body = quote_spanned! {self.here=>
                    async move {
                        #anchor
                        match () { () => #block }
                    }
                };
                ("plain", body)
            }
            Some(name) => {
                let body = quote_spanned! {self.here=>
                    move |__lock_guard| async move {
                        #anchor
                        match &*__lock_guard { #name => #block }
                    }
                };
                ("with_guard", body)
            }
        }
    }

    /// Tells the compiler the type of the body before it reads the body, so that a wrong tail
    /// expression is reported where it stands.
    fn anchor(&self) -> TokenStream {
        let ty = match &self.function.sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => without_impl(ty),
        };
        quote_spanned! {self.here=>
            if let ::core::option::Option::Some(__lock_never) =
                ::core::option::Option::None::<#ty>
            {
                return __lock_never;
            }
        }
    }
}

/// The type with `_` for every `impl Trait`, which cannot be written inside a function.
fn without_impl(ty: &Type) -> TokenStream {
    let mut ty = ty.clone();
    erase(&mut ty);
    ty.to_token_stream()
}

fn erase(ty: &mut Type) {
    if !mentions_impl(ty.to_token_stream()) {
        return;
    }
    let hidden = || Type::Verbatim(quote!(_));
    match ty {
        Type::Array(array) => erase(&mut array.elem),
        Type::Group(group) => erase(&mut group.elem),
        Type::Paren(paren) => erase(&mut paren.elem),
        Type::Reference(reference) => erase(&mut reference.elem),
        Type::Slice(slice) => erase(&mut slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(erase),
        Type::Path(path) => {
            for segment in &mut path.path.segments {
                if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
                    for argument in &mut arguments.args {
                        if let GenericArgument::Type(ty) = argument {
                            erase(ty);
                        }
                    }
                }
            }
            // Hidden somewhere less usual, as in `Box<dyn Iterator<Item = impl Debug>>`.
            if mentions_impl(path.to_token_stream()) {
                *ty = hidden();
            }
        }
        _ => *ty = hidden(),
    }
}

fn mentions_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "impl",
        TokenTree::Group(group) => mentions_impl(group.stream()),
        _ => false,
    })
}

/// The same tokens, reported at `place`.
fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    moved.collect()
}

#[cfg(test)]
mod tests;
