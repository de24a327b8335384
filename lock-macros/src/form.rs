//! The forms of functions.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{ReturnType, Signature, Stmt, Type, TypeParamBound};

/// The form of a function.
pub(crate) enum Form {
    /// `async fn`
    Async,
    /// The body evaluates to a future, which is returned as it is or, if `boxed`, in a pinned box.
    Future { boxed: bool },
    /// The result of `#[async_trait]` on an `async fn`: the arguments are bound again inside a boxed future.
    /// The prologue does that; the body follows it.
    AsyncTrait { prologue: Vec<Stmt> },
    /// A plain function, which waits on its thread.
    Sync,
}

impl Form {
    pub(crate) fn of(sig: &Signature) -> Self {
        if sig.asyncness.is_some() {
            return Self::Async;
        }
        match &sig.output {
            ReturnType::Type(_, ty) if is_future(ty) => {
                Self::Future { boxed: !matches!(bare(ty), Type::ImplTrait(_)) }
            }
            _ => Self::Sync,
        }
    }
}

/// True if the type names a future: by the name of a trait or an alias, or in a `Pin<…>`.
fn is_future(ty: &Type) -> bool {
    let named = |path: &syn::Path| path.segments.last().is_some_and(names_future);
    match bare(ty) {
        Type::ImplTrait(ty) => ty.bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => named(&bound.path),
            _ => false,
        }),
        Type::Path(ty) => {
            let pinned = ty.path.segments.last().filter(|last| last.ident == "Pin");
            named(&ty.path) || pinned.is_some_and(|pin| mentions_future(pin.to_token_stream()))
        }
        _ => false,
    }
}

/// The type without brackets, visible or not.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}

fn names_future(segment: &syn::PathSegment) -> bool {
    segment.ident.to_string().ends_with("Future")
}

/// True if the tokens name a future.
pub(crate) fn mentions_future(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word.to_string().ends_with("Future"),
        TokenTree::Group(group) => mentions_future(group.stream()),
        _ => false,
    })
}
