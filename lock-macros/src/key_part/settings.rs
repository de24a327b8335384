//! `#[key_part(…)]` on a type, a variant or a field.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Path};

use crate::errors::{Errors, nearest};

/// What the attribute stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Type,
    Variant,
    Field,
}

/// What the attributes of one place say.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) root: Option<Path>,
    pub(super) name: Option<LitStr>,
}

impl Settings {
    pub(super) fn parse(attrs: &[Attribute], place: Place, errors: &mut Errors) -> Self {
        let mut settings = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("key_part")) {
            errors.keep(if place == Place::Field {
                let message = "a field has nothing to set; `crate = …` goes in front of the type and \
                               `name = …` in front of a variant";
                Err(syn::Error::new_spanned(attr, message))
            } else {
                attr.parse_nested_meta(|meta| settings.take(&meta, place))
            });
        }
        settings
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> syn::Result<()> {
        match place {
            Place::Type if meta.path.is_ident("crate") => {
                once(&mut self.root, meta, root(meta.value()?.parse()?)?)
            }
            Place::Variant if meta.path.is_ident("name") => {
                once(&mut self.name, meta, name(meta.value()?.parse()?)?)
            }
            _ => Err(meta.error(unknown(meta, place))),
        }
    }
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
    let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    let known = if place == Place::Type { "crate" } else { "name" };
    match nearest(&word, [known]) {
        Some(_) => format!("there is no argument `{word}`; did you mean `{known}`?"),
        None => format!("the only argument here is `{known}`"),
    }
}

fn root(value: Expr) -> syn::Result<Path> {
    match ungrouped(value) {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        value => Err(syn::Error::new_spanned(
            value,
            "`crate` is the path of `lock_runtime` from here, such as `crate = ::lock_runtime`",
        )),
    }
}

fn name(value: Expr) -> syn::Result<LitStr> {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        value => Err(syn::Error::new_spanned(
            value,
            "`name` is text in quotes, such as `name = \"credit-card\"`",
        )),
    }
}

/// Takes off the invisible brackets that a `macro_rules!` variable comes in.
fn ungrouped(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}
