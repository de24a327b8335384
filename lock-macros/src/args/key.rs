//! `key` and `keys`: the names of the locks.

use lock_syntax::MAX_MULTI_NAMES;
use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, ExprLit, Lit, LitStr, Token};

use super::{ungrouped, word};
use crate::errors::Errors;

/// The value of `key` or `keys`.
pub(crate) enum KeyArg {
    One(KeyForm),
    /// `keys = […]`
    All(Vec<KeyForm>),
    /// `keys = expression`
    AllOf(Expr),
}

/// One key, as it was written.
pub(crate) enum KeyForm {
    Template(LitStr),
    Filled(LitStr, Vec<Expr>),
    Expression(Expr),
}

pub(super) fn one(value: Expr) -> syn::Result<KeyForm> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(template), .. }) => Ok(KeyForm::Template(template)),
        Expr::Lit(literal) => Err(syn::Error::new(
            literal.span(),
            "a key is text; write it in double quotes, such as `key = \"order:{id}\"`",
        )),
        Expr::Array(array) => Err(syn::Error::new_spanned(
            array,
            "`key` is one key; several are written as `keys = [\"from:{from}\", \"to:{to}\"]`",
        )),
        value => Ok(KeyForm::Expression(value)),
    }
}

pub(super) fn all(value: Expr) -> syn::Result<KeyArg> {
    let list = match value {
        Expr::Array(list) => list,
        Expr::Lit(literal) => {
            return Err(syn::Error::new_spanned(
                literal,
                "`keys` is a list, such as `keys = [\"from:{from}\", \"to:{to}\"]`; one key is \
                 written as `key = …`",
            ));
        }
        value => return Ok(KeyArg::AllOf(value)),
    };
    if list.elems.is_empty() {
        return Err(syn::Error::new_spanned(
            list,
            "`keys` is empty; name at least one lock, such as `keys = [\"order:{id}\"]`",
        ));
    }
    if list.elems.len() > MAX_MULTI_NAMES {
        let message = format!(
            "`keys` names {} locks; it can name {MAX_MULTI_NAMES} at most, so lock something that stands for all",
            list.elems.len()
        );
        return Err(syn::Error::new_spanned(list, message));
    }
    let mut forms = Vec::new();
    let mut errors = Errors::default();
    for element in list.elems {
        let Some(form) = errors.keep(element_form(ungrouped(element))) else { continue };
        if let KeyForm::Template(text) = &form
            && forms
                .iter()
                .any(|form| matches!(form, KeyForm::Template(t) if t.value() == text.value()))
        {
            let message = format!("{:?} is in `keys` twice; keep one of them", text.value());
            errors.push_at(text.span(), message);
        }
        forms.push(form);
    }
    errors.into_result().map(|()| KeyArg::All(forms))
}

/// In a list, `key("…{}", value)` is a text with values.
fn element_form(element: Expr) -> syn::Result<KeyForm> {
    match element {
        Expr::Call(call) if word(&call.func).is_some_and(|name| name == "key") => {
            filled(call.paren_token.span.join(), call.args)
        }
        element => one(element),
    }
}

pub(super) fn filled(span: Span, list: Punctuated<Expr, Token![,]>) -> syn::Result<KeyForm> {
    let mut list = list.into_iter().map(ungrouped);
    match list.next() {
        Some(Expr::Lit(ExprLit { lit: Lit::Str(template), .. })) => {
            Ok(KeyForm::Filled(template, list.collect()))
        }
        first => Err(syn::Error::new(
            first.map_or(span, |first| first.span()),
            "the text of the key comes first; write `key(\"order:{}\", order.id)`",
        )),
    }
}
