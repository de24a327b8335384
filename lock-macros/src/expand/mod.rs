//! The expansion: *one* call of the runtime gets a constant description of the site, the values that only the
//! call knows, and the body as a future.
//!
//! The expansion contains no policy. The runtime applies the defaults of omitted settings.

mod call;
mod site;
mod types;

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, GenericArgument, PathArguments, ReturnType, Type};

use self::call::Lock;
use self::types::without_impl;
use crate::args::{Args, KeyArg};
use crate::errors::Errors;
use crate::item::{Body, Form, Function, Scope, is_lock};
use crate::template::{self, Key};
use crate::validate;

/// Expands the attribute, and those that are stacked below it. An item that cannot be locked is emitted
/// unchanged, after the errors, so that it causes no further errors.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let Some(mut function) = errors.keep(Function::parse(item.clone())) else {
        let errors = errors.into_compile_error();
        return quote!(#errors #item);
    };
    let stacked = function.take_stacked();
    let mut all = vec![args];
    for attribute in &stacked {
        let list = attribute.meta.require_list().map(|list| list.tokens.clone());
        let mut args = Args::parse(list.unwrap_or_default(), &mut errors);
        args.below = Some(attribute.bracket_token.span.join());
        all.push(args);
    }
    let scope = function.scope();
    validate::check_shape(&function, cfg!(feature = "blocking"), &mut errors);
    for args in &all {
        validate::check(&function, args, &scope, &mut errors);
    }
    validate::check_guards(&all, &mut errors);
    let keys: Vec<_> = all.iter().map(|args| keys(args, &scope, &mut errors)).collect();
    let locks: Option<Vec<_>> =
        all.iter().zip(keys).map(|(args, keys)| Some((args, keys?))).collect();
    match (errors.into_compile_error(), locks, &function.body) {
        (None, Some(locks), Some(body)) => generate(&function, &scope, &locks, body),
        (errors, ..) => {
            let item = without_locks(item);
            quote!(#errors #item)
        }
    }
}

/// Returns the item without its other locks, which would report the same errors again.
fn without_locks(item: TokenStream) -> TokenStream {
    let split = |input: ParseStream<'_>| -> syn::Result<(Vec<Attribute>, TokenStream)> {
        Ok((input.call(Attribute::parse_outer)?, input.parse()?))
    };
    let Ok((mut attrs, rest)) = split.parse2(item.clone()) else { return item };
    attrs.retain(|attr| !is_lock(attr));
    quote!(#(#attrs)* #rest)
}

/// The keys of one attribute, checked.
enum Keys<'a> {
    One(Key),
    All(Vec<Key>),
    AllOf(&'a syn::Expr),
}

fn keys<'a>(args: &'a Args, scope: &Scope, errors: &mut Errors) -> Option<Keys<'a>> {
    match args.key.as_ref()? {
        KeyArg::One(form) => errors.keep(template::key(form, scope)).map(Keys::One),
        KeyArg::All(forms) => {
            let keys: Vec<_> =
                forms.iter().map(|form| errors.keep(template::key(form, scope))).collect();
            keys.into_iter().collect::<Option<_>>().map(Keys::All)
        }
        KeyArg::AllOf(value) => Some(Keys::AllOf(value)),
    }
}

/// Returns the locked function. Each lock is the body of the one before it, so that they are acquired in the
/// order in which they are written.
fn generate(
    function: &Function,
    scope: &Scope,
    locks: &[(&Args, Keys<'_>)],
    body: &Body,
) -> TokenStream {
    let here = Span::mixed_site();
    let span = body.block.span();
    let (mut statements, mut root) = (TokenStream::new(), TokenStream::new());
    let mut block = body.block.clone();
    for (nesting, (args, keys)) in locks.iter().enumerate().rev() {
        let innermost = nesting + 1 == locks.len();
        let lock = Lock::new(function, scope, args, innermost);
        statements = lock.statements(keys, &block);
        root = lock.root;
        block = Group::new(Delimiter::Brace, statements.clone());
        block.set_span(span);
    }
    let statements = match &function.form {
        Form::Async | Form::Sync => statements,
        // In a call, because a lint would otherwise demand an `async fn`.
        Form::Future { boxed: false } => {
            quote_spanned!(here=> #root::private::v1::future(move || async move { #statements }))
        }
        Form::Future { boxed: true } => {
            quote_spanned!(here=> ::std::boxed::Box::pin(async move { #statements }))
        }
        Form::AsyncTrait { prologue } => quote_spanned! {here=>
            ::std::boxed::Box::pin(async move { #(#prologue)* #statements })
        },
    };
    let Function { attrs, vis, sig, .. } = function;
    let inner_attrs = &body.inner_attrs;
    let mut block = Group::new(Delimiter::Brace, quote!(#(#inner_attrs)* #statements));
    block.set_span(span);
    quote!(#(#attrs)* #vis #sig #block)
}

/// Returns the error in the return type, if the signature shows it: the `E` of a `Result<T, E>`.
fn error_of(output: &Type) -> Option<&Type> {
    let Type::Path(path) = output else { return None };
    let result = path.path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(inside) = &result.arguments else { return None };
    match inside.args.iter().nth(1) {
        Some(GenericArgument::Type(error)) => Some(error),
        _ => None,
    }
}

/// Returns where the compiler reports the bounds of the return type, and those of the error in it.
fn places(function: &Function) -> (Span, Span) {
    let name = function.sig.ident.span();
    let ty = match (&function.sig.output, function.output()) {
        (ReturnType::Default, _) => return (name, name),
        // The tokens around it are not the user's, and neither is the `()` of no return type.
        (_, Some(Type::Tuple(unit))) if unit.elems.is_empty() => return (name, name),
        (_, Some(output)) => output,
        (ReturnType::Type(_, ty), None) => (**ty).clone(),
    };
    let place = template::ends(&ty).0;
    (place, error_of(&ty).map_or(place, |error| template::ends(error).0))
}

/// Gives the compiler two facts before it reads the body. First the type, so that a wrong tail expression is
/// reported at its place; without a return type to copy, the body's own type is used. Second the captured
/// values: whole arguments and not the fields that the body mentions, because captured copies of fields would
/// change, and in the order in which a function drops them.
fn anchor(function: &Function, scope: &Scope, innermost: bool, root: &TokenStream) -> TokenStream {
    let ty = match &function.form {
        Form::Async | Form::Sync | Form::Future { boxed: false } => function.output(),
        Form::Future { .. } | Form::AsyncTrait { .. } => None,
    };
    let ty = ty.map(|ty| without_impl(&ty));
    let here = Span::mixed_site();
    // If the body creates a future, `Lock::future` mentions the arguments inside it.
    let whole = match innermost && !matches!(function.form, Form::Future { .. }) {
        true => whole(function, scope),
        false => TokenStream::new(),
    };
    let never = ty.map(|ty| quote_spanned!(here=> return #root::private::v1::never::<#ty>();));
    if whole.is_empty() && never.is_none() {
        return TokenStream::new();
    }
    quote_spanned!(here=> if false { #whole #never })
}

/// Mentions the arguments that the body uses.
fn whole(function: &Function, scope: &Scope) -> TokenStream {
    let arguments = function.mentioned(scope);
    if arguments.is_empty() {
        return TokenStream::new();
    }
    quote_spanned!(Span::mixed_site()=> let _ = (#(&#arguments,)*);)
}

#[cfg(test)]
mod tests;
