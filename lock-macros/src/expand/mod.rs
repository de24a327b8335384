//! The expansion: *one* call of the runtime gets a constant description of the site, the values that only the
//! call knows, and the body as a future.
//!
//! The expansion contains no policy. The runtime applies the defaults of omitted settings.

mod call;
mod site;
mod types;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{Attribute, Meta, ReturnType, Type};

use self::call::Lock;
use self::types::without_impl;
use crate::args::{Args, KeyArg};
use crate::errors::Errors;
use crate::item::{Body, Form, Function, Scope};
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
        let mut args = Args::parse(argument_list(attribute), &mut errors);
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
            let item = without(item, &stacked);
            quote!(#errors #item)
        }
    }
}

/// The arguments of an attribute below this one.
fn argument_list(attribute: &Attribute) -> TokenStream {
    match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
    }
}

/// Returns the item without those attributes, which would report the same errors again.
fn without(item: TokenStream, stacked: &[Attribute]) -> TokenStream {
    if stacked.is_empty() {
        return item;
    }
    let mut rest: Vec<TokenTree> = item.into_iter().collect();
    for attribute in stacked {
        let length = quote!(#attribute).into_iter().count();
        let text = quote!(#attribute).to_string();
        let starts = 0..=rest.len().saturating_sub(length);
        let found = starts.into_iter().find(|start| {
            rest[*start..*start + length].iter().cloned().collect::<TokenStream>().to_string()
                == text
        });
        if let Some(start) = found {
            rest.drain(start..start + length);
        }
    }
    rest.into_iter().collect()
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

/// Returns where the compiler reports the bounds of the return type.
fn place_of_return(function: &Function) -> Span {
    let name = function.sig.ident.span();
    let ReturnType::Type(_, ty) = &function.sig.output else { return name };
    let start = |ty: &Type| template::ends(ty).0;
    match (&function.form, types::output(ty)) {
        // The tokens around it are not the user's, and neither is the `()` of no return type.
        (Form::AsyncTrait { .. }, Some(Type::Tuple(unit))) if unit.elems.is_empty() => name,
        (Form::Future { .. } | Form::AsyncTrait { .. }, Some(output)) => start(&output),
        _ => start(ty),
    }
}

/// Gives the compiler two facts before it reads the body. First the type, so that a wrong tail expression is
/// reported at its place; without a return type to copy, the body's own type is used. Second the captured
/// values: whole arguments and not the fields that the body mentions, because captured copies of fields would
/// change, and in the order in which a function drops them.
fn anchor(function: &Function, scope: &Scope, innermost: bool, root: &TokenStream) -> TokenStream {
    let ty = match (&function.form, &function.sig.output) {
        (Form::Async | Form::Sync, ReturnType::Default) => Some(quote!(())),
        (Form::Async | Form::Sync, ReturnType::Type(_, ty)) => Some(without_impl(ty)),
        (Form::Future { boxed: false }, ReturnType::Type(_, ty)) => {
            types::output(ty).map(|output| without_impl(&output))
        }
        (Form::Future { .. } | Form::AsyncTrait { .. }, _) => None,
    };
    let here = Span::mixed_site();
    // If the body creates a future, `Lock::future` mentions the arguments inside it.
    let whole = match innermost && !matches!(function.form, Form::Future { .. }) {
        true => whole(function, scope, root),
        false => TokenStream::new(),
    };
    let never = ty.map(|ty| quote_spanned!(here=> return #root::private::v1::never::<#ty>();));
    if whole.is_empty() && never.is_none() {
        return TokenStream::new();
    }
    quote_spanned!(here=> if false { #whole #never })
}

/// Mentions the arguments that the body uses.
fn whole(function: &Function, scope: &Scope, root: &TokenStream) -> TokenStream {
    let arguments = function.mentioned(scope);
    if arguments.is_empty() {
        return TokenStream::new();
    }
    quote_spanned!(Span::mixed_site()=> #root::private::v1::whole((#(&#arguments,)*));)
}

#[cfg(test)]
mod tests;
