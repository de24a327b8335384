//! Return types, repeated inside the function.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{GenericArgument, PathArguments, Type};

/// Returns the type with `_` for every `impl Trait`, which cannot be written inside a function.
pub(super) fn without_impl(ty: &Type) -> TokenStream {
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
            // Nested in a less usual place, as in `Box<dyn Iterator<Item = impl Debug>>`.
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
