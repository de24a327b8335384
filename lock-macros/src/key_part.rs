//! `#[derive(KeyPart)]`: a newtype delegates to its field, and an enum without values writes the variant's
//! name.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Data, DeriveInput, Field, Fields, Index, LitStr, Member, Path, Type, Variant};

use crate::errors::Errors;

mod bounds;
mod settings;

use self::settings::{Place, Settings};

/// Expands the derive. A type that cannot be derived still gets an impl after the errors, so that it causes no
/// further errors.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut errors = Errors::default();
    let settings = Settings::parse(&input.attrs, Place::Type, &mut errors);
    let derive = Derive::new(&input, settings.root);
    let part = match &input.data {
        Data::Struct(data) => derive.newtype(&data.fields, &mut errors),
        Data::Enum(data) => derive.name(data.variants.iter(), &mut errors),
        Data::Union(data) => {
            let problem = "is a union, and nothing tells which of its fields has the value; \
                           implement `KeyPart` by hand";
            errors.push_at(data.union_token.span, format!("`{}` {problem}", input.ident));
            None
        }
    };
    match (errors.into_compile_error(), part) {
        (None, Some(part)) => derive.implementation(&part),
        (errors, _) => {
            let nothing = derive.implementation(&Part::default());
            quote!(#errors #nothing)
        }
    }
}

struct Derive<'a> {
    input: &'a DeriveInput,
    /// The trait and its writer, at the type's path of the runtime.
    trait_path: TokenStream,
    writer: TokenStream,
}

impl<'a> Derive<'a> {
    fn new(input: &'a DeriveInput, root: Option<Path>) -> Self {
        let here = Span::mixed_site();
        // A path that leads nowhere is an error at the path.
        let last = root.as_ref().and_then(|root| root.segments.last());
        let there = last.map_or(here, |last| here.located_at(last.ident.span()));
        let root = root
            .map_or_else(|| quote_spanned!(here=> ::lock_runtime), |root| root.to_token_stream());
        Self {
            input,
            trait_path: quote_spanned!(there=> #root::KeyPart),
            writer: quote_spanned!(there=> #root::key::KeyPartWriter),
        }
    }
}

/// The parts of the impl.
#[derive(Default)]
struct Part {
    /// Predicates in addition to those of the type.
    bounds: Vec<TokenStream>,
    /// The statement that writes the part to `__lock_out`, a name that no constant has.
    write: TokenStream,
}

impl Derive<'_> {
    fn newtype(&self, fields: &Fields, errors: &mut Errors) -> Option<Part> {
        let name = &self.input.ident;
        for field in fields {
            Settings::parse(&field.attrs, Place::Field, errors);
        }
        let values: Vec<_> =
            fields.iter().enumerate().filter(|(_, field)| has_value(field)).collect();
        match values[..] {
            [(at, field)] => Some(self.hand_on(member(at, field), &field.ty)),
            [] => {
                let problem = "has no field with a value, so it would be the same text in every key; \
                               write that text into the key";
                errors.push_at(name.span(), format!("`{name}` {problem}"));
                None
            }
            [(first, one), (second, two), ..] => {
                let (first, second) = (member(first, one), member(second, two));
                let count = values.len();
                let message = format!(
                    "`{name}` has {count} fields, and two values in one part could be mistaken for \
                     each other; give each a placeholder of its own, as in `{{x.{}}}:{{x.{}}}`, or \
                     implement `KeyPart` by hand",
                    shown(&first),
                    shown(&second),
                );
                errors.push(match &two.ident {
                    Some(ident) => syn::Error::new_spanned(ident, message),
                    None => syn::Error::new_spanned(&two.ty, message),
                });
                None
            }
        }
    }

    /// The type is repeated with the user's tokens, so that an error about it shows the field.
    fn hand_on(&self, member: Member, ty: &Type) -> Part {
        let trait_path = &self.trait_path;
        let bounds = bounds::of(ty, &self.input.generics)
            .into_iter()
            .map(|bounded| quote_spanned!(Span::mixed_site()=> #bounded: #trait_path))
            .collect();
        let write = quote_spanned! {Span::mixed_site()=>
            <#ty as #trait_path>::write_key_part(&self.#member, __lock_out);
        };
        Part { bounds, write }
    }

    fn name<'v>(
        &self,
        variants: impl Iterator<Item = &'v Variant>,
        errors: &mut Errors,
    ) -> Option<Part> {
        let mut names: HashMap<String, &Ident> = HashMap::new();
        let mut arms = TokenStream::new();
        let mut refused = false;
        for variant in variants {
            let settings = Settings::parse(&variant.attrs, Place::Variant, errors);
            refuse_values(variant, errors);
            if settings.refused {
                refused = true;
                continue;
            }
            let name = variant_name(variant, settings.name.as_ref(), errors);
            if let Some(other) = names.insert(name.clone(), &variant.ident)
                && !name.is_empty()
            {
                let place = settings.name.as_ref().map_or(variant.ident.span(), LitStr::span);
                let problem = format!(
                    "`{other}` and `{}` would both be `{name}` in a key; tell one of them apart with \
                     `#[key_part(name = \"…\")]`",
                    variant.ident
                );
                errors.push_at(place, problem);
            }
            arms.extend(arm(variant, &name));
        }
        if names.is_empty() && !refused {
            let enumeration = &self.input.ident;
            let problem =
                "has no variants, so no key can ever be made with it; take it out of the key";
            errors.push_at(enumeration.span(), format!("`{enumeration}` {problem}"));
            return None;
        }
        let writer = &self.writer;
        let write = quote_spanned! {Span::mixed_site()=>
            #writer::write_str(__lock_out, match *self { #arms });
        };
        Some(Part { bounds: Vec::new(), write })
    }

    fn implementation(&self, part: &Part) -> TokenStream {
        let Self { input, trait_path, writer } = self;
        let Part { bounds, write } = part;
        let name = ours(&input.ident);
        let (parameters, arguments, clause) = input.generics.split_for_impl();
        let own = clause.into_iter().flat_map(|clause| &clause.predicates);
        let out = if write.is_empty() {
            quote!(_)
        } else {
            quote_spanned!(Span::mixed_site()=> __lock_out)
        };
        quote_spanned! {Span::mixed_site()=>
            #[automatically_derived]
            impl #parameters #trait_path for #name #arguments
            where
                #(#own,)*
                #(#bounds,)*
            {
                #[inline]
                fn write_key_part(&self, #out: &mut #writer<'_>) {
                    #write
                }
            }
        }
    }
}

/// The name as if the derive had written it, at the user's place: lints, such as that of a deprecated name,
/// then allow it.
fn ours(name: &Ident) -> Ident {
    let mut name = name.clone();
    name.set_span(name.span().resolved_at(Span::mixed_site()));
    name
}

/// `PhantomData` is in a type only for the compiler.
fn has_value(field: &Field) -> bool {
    let mut ty = &field.ty;
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            Type::Path(path) => {
                return path.path.segments.last().is_none_or(|last| last.ident != "PhantomData");
            }
            _ => return true,
        };
    }
}

fn member(at: usize, field: &Field) -> Member {
    field.ident.as_ref().map_or_else(|| Index::from(at).into(), |name| ours(name).into())
}

fn shown(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

fn refuse_values(variant: &Variant, errors: &mut Errors) {
    for field in &variant.fields {
        Settings::parse(&field.attrs, Place::Field, errors);
    }
    if let Some(value) = variant.fields.iter().find(|field| has_value(field)) {
        let message = format!(
            "`{}` carries a value, and its name alone would make one key of many values; give the value \
             a placeholder of its own, or implement `KeyPart` by hand",
            variant.ident
        );
        errors.push(syn::Error::new_spanned(&value.ty, message));
    }
}

/// Returns the given name, else the variant's own in kebab-case. Empty only if that was refused.
fn variant_name(variant: &Variant, given: Option<&LitStr>, errors: &mut Errors) -> String {
    let name = given.map_or_else(|| kebab(&variant.ident.unraw().to_string()), LitStr::value);
    if name.is_empty() {
        let place = given.map_or(variant.ident.span(), LitStr::span);
        let problem = format!(
            "an empty part is no part of a key; write what stands for `{}`, such as \
             `#[key_part(name = \"none\")]`",
            variant.ident
        );
        errors.push_at(place, problem);
    }
    name
}

fn arm(variant: &Variant, name: &str) -> TokenStream {
    let ident = ours(&variant.ident);
    let rest = match &variant.fields {
        Fields::Unit => TokenStream::new(),
        Fields::Unnamed(_) => quote!((..)),
        Fields::Named(_) => quote!({ .. }),
    };
    quote_spanned!(Span::mixed_site()=> Self::#ident #rest => #name,)
}

/// `CreditCard` as `credit-card`, and `HTTPPush2` as `http-push2`.
fn kebab(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut words = String::with_capacity(name.len() + 4);
    for (at, &letter) in letters.iter().enumerate() {
        let after_capital = at > 0 && letters[at - 1].is_uppercase();
        let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins = letter.is_uppercase() && (!after_capital || before_small);
        if (begins || letter == '_') && !words.is_empty() && !words.ends_with('-') {
            words.push('-');
        }
        if letter != '_' {
            words.extend(letter.to_lowercase());
        }
    }
    words.truncate(words.trim_end_matches('-').len());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variants_in_kebab_case() {
        let cases = [
            ("Card", "card"),
            ("CreditCard", "credit-card"),
            ("HTTPPush2", "http-push2"),
            ("V2Beta", "v2-beta"),
            ("EU", "eu"),
            ("A", "a"),
            ("Not_CAMEL", "not-camel"),
            ("lower", "lower"),
            ("_Hidden_", "hidden"),
            ("ÄußereGröße", "äußere-größe"),
            ("__", ""),
        ];
        for (variant, name) in cases {
            assert_eq!(kebab(variant), name);
        }
    }
}
