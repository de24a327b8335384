//! The `KeyPart` bounds of a generic field.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{
    GenericArgument, Generics, PathArguments, Type, TypeParamBound, TypePath, WherePredicate,
};

/// Returns the type parameters in the field's type, and associated types of parameters: `T` for `Box<T>`,
/// `T::Id` for `T::Id`, none for `u64`.
///
/// A bound on the field's type itself would require less, but it would accept `Option<T>` until it is used, and
/// name private types in public bounds.
pub(super) fn of(ty: &Type, generics: &Generics) -> Vec<TokenStream> {
    let parameters: Vec<&Ident> =
        generics.type_params().map(|parameter| &parameter.ident).collect();
    let mut found = Vec::new();
    if !parameters.is_empty() {
        collect(ty, &parameters, &mut found);
    }
    let mut known = given(generics);
    found.retain(|bounded| {
        let text = bounded.to_string();
        let new = !known.contains(&text);
        known.push(text);
        new
    });
    found
}

/// The types that are `KeyPart` by the type's own bounds; a second bound would be a lint.
fn given(generics: &Generics) -> Vec<String> {
    let mut given: Vec<String> = generics
        .type_params()
        .filter(|parameter| names_key_part(&parameter.bounds))
        .map(|parameter| parameter.ident.to_string())
        .collect();
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        if let WherePredicate::Type(predicate) = predicate
            && predicate.lifetimes.is_none()
            && names_key_part(&predicate.bounds)
        {
            given.push(predicate.bounded_ty.to_token_stream().to_string());
        }
    }
    given
}

fn names_key_part<'a>(bounds: impl IntoIterator<Item = &'a TypeParamBound>) -> bool {
    bounds.into_iter().any(|bound| match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().is_some_and(|last| last.ident == "KeyPart")
        }
        _ => false,
    })
}

fn collect(ty: &Type, parameters: &[&Ident], found: &mut Vec<TokenStream>) {
    match ty {
        Type::Array(array) => collect(&array.elem, parameters, found),
        Type::Group(group) => collect(&group.elem, parameters, found),
        Type::Paren(paren) => collect(&paren.elem, parameters, found),
        Type::Reference(reference) => collect(&reference.elem, parameters, found),
        Type::Slice(slice) => collect(&slice.elem, parameters, found),
        Type::Tuple(tuple) => {
            for element in &tuple.elems {
                collect(element, parameters, found);
            }
        }
        Type::Path(path) => collect_path(path, parameters, found),
        // No other type is a `KeyPart`, whatever its parameters are.
        _ => {}
    }
}

fn collect_path(ty: &TypePath, parameters: &[&Ident], found: &mut Vec<TokenStream>) {
    let segments = &ty.path.segments;
    if let Some(owner) = &ty.qself {
        let mut inside = Vec::new();
        collect(&owner.ty, parameters, &mut inside);
        if !inside.is_empty() {
            found.push(ty.to_token_stream());
        }
        return;
    }
    if ty.path.leading_colon.is_none()
        && let Some(first) = segments.first()
        && parameters.contains(&&first.ident)
    {
        found.push(ty.to_token_stream());
        return;
    }
    for segment in segments {
        if let PathArguments::AngleBracketed(arguments) = &segment.arguments {
            for argument in &arguments.args {
                if let GenericArgument::Type(argument) = argument {
                    collect(argument, parameters, found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn bounds(ty: &Type) -> Vec<String> {
        let generics: Generics = parse_quote!(<'a, T, U: Entity, const N: usize>);
        of(ty, &generics).iter().map(|ty| ty.to_string().replace(' ', "")).collect()
    }

    #[test]
    fn a_bound_for_each_parameter_in_the_type() {
        assert_eq!(bounds(&parse_quote!(T)), ["T"]);
        assert_eq!(bounds(&parse_quote!(&'a Box<T>)), ["T"]);
        assert_eq!(bounds(&parse_quote!(std::borrow::Cow<'a, [(T, U)]>)), ["T", "U"]);
        assert_eq!(bounds(&parse_quote!(Pair<T, T, N>)), ["T"]);
        assert!(bounds(&parse_quote!(u64)).is_empty());
        assert!(bounds(&parse_quote!(::T)).is_empty());
        assert!(bounds(&parse_quote!([u8; N])).is_empty());
    }

    #[test]
    fn no_bound_that_is_there_already() {
        let generics: Generics = parse_quote!(<T: Copy + KeyPart, U: Entity, V>);
        assert!(of(&parse_quote!(Box<T>), &generics).is_empty());
        let mut generics: Generics = parse_quote!(<T, U: Entity>);
        generics.where_clause = Some(parse_quote!(where U::Id: lock_runtime::KeyPart, T: Copy));
        assert!(of(&parse_quote!(U::Id), &generics).is_empty());
        assert_eq!(of(&parse_quote!(T), &generics).len(), 1);
    }

    #[test]
    fn associated_types_and_not_their_owners() {
        assert_eq!(bounds(&parse_quote!(Box<U::Id>)), ["U::Id"]);
        assert_eq!(bounds(&parse_quote!(<U as Entity>::Id)), ["<UasEntity>::Id"]);
        assert!(bounds(&parse_quote!(<u8 as Entity>::Id)).is_empty());
    }
}
