//! `#[key_part(…)]` on a type, a variant or a field.

use quote::ToTokens as _;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Path, Token};

use crate::args::{root, ungrouped};
use crate::errors::{Errors, nearest};

/// The item with the attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Type,
    Variant,
    Field,
}

/// The settings of the attributes of one place.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) root: Option<Path>,
    pub(super) name: Option<LitStr>,
    /// True if a setting was not understood.
    pub(super) refused: bool,
}

impl Settings {
    pub(super) fn parse(attrs: &[Attribute], place: Place, errors: &mut Errors) -> Self {
        let mut settings = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("key_part")) {
            settings.refused |= errors.keep(settings.add(attr, place)).is_none();
        }
        settings
    }

    fn add(&mut self, attr: &Attribute, place: Place) -> syn::Result<()> {
        let message = match (place, &attr.meta) {
            (Place::Type | Place::Variant, Meta::List(_)) => {
                return attr.parse_nested_meta(|meta| self.take(&meta, place));
            }
            (Place::Type, _) => "write the argument in parentheses, as in `#[key_part(crate = …)]`",
            (Place::Variant, _) => {
                "write the argument in parentheses, as in `#[key_part(name = \"…\")]`"
            }
            (Place::Field, _) => {
                "a field has nothing to set; `crate = …` goes in front of the type and `name = …` in \
                 front of a variant"
            }
        };
        Err(syn::Error::new_spanned(attr, message))
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> syn::Result<()> {
        match place {
            Place::Type if meta.path.is_ident("crate") => {
                once(&mut self.root, meta, root(value(meta)?)?)
            }
            Place::Variant if meta.path.is_ident("name") => {
                once(&mut self.name, meta, name(value(meta)?)?)
            }
            _ => Err(meta.error(unknown(meta, place))),
        }
    }
}

fn value(meta: &ParseNestedMeta<'_>) -> syn::Result<Expr> {
    if !meta.input.peek(Token![=]) {
        let problem = match meta.path.is_ident("crate") {
            true => "`crate` takes its value behind `=`; write `crate = …`",
            false => "`name` takes its value behind `=`; write `name = \"…\"`",
        };
        return Err(meta.error(problem));
    }
    Ok(ungrouped(meta.value()?.parse()?))
}

fn once<T>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> syn::Result<()> {
    if slot.replace(value).is_some() {
        let argument = if meta.path.is_ident("crate") { "crate" } else { "name" };
        return Err(meta.error(format!("`{argument}` is given twice; keep one of them")));
    }
    Ok(())
}

fn unknown(meta: &ParseNestedMeta<'_>, place: Place) -> String {
    if meta.path.is_ident("name") {
        return "`name` goes in front of a variant; what a newtype writes is its field's value"
            .into();
    }
    if meta.path.is_ident("crate") {
        return "`crate` goes in front of the enum, for all of its variants".into();
    }
    let word = meta.path.to_token_stream().to_string().replace(' ', "");
    let known = if place == Place::Type { "crate" } else { "name" };
    match nearest(&word, [known]) {
        Some(_) => format!("there is no argument `{word}`; did you mean `{known}`?"),
        None => format!("there is no argument `{word}`; the only one here is `{known}`"),
    }
}

fn name(value: Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        value => Err(syn::Error::new_spanned(
            value,
            "`name` is text in quotes, such as `name = \"credit-card\"`",
        )),
    }
}
