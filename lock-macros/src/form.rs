//! The forms of functions.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
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

/// True if the type is a future that a body can be put into: a trait's, a `Pin<…>` with one, or an alias of that. A name
/// that only ends in `Future` may be a struct.
fn is_future(ty: &Type) -> bool {
    let named = |path: &syn::Path, end| {
        path.segments.last().is_some_and(|last| last.ident.to_string().ends_with(end))
    };
    match bare(ty) {
        Type::ImplTrait(ty) => ty.bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => named(&bound.path, "Future"),
            _ => false,
        }),
        Type::Path(ty) if named(&ty.path, "BoxFuture") => true,
        Type::Path(ty) => {
            let pinned = ty.path.segments.last().filter(|last| last.ident == "Pin");
            let future = |name: &str| name.ends_with("Future").then_some(());
            pinned.is_some_and(|pin| find(pin.to_token_stream(), &future).is_some())
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

/// A value that its user needs after the release: what happens to it then, and what to do in its place.
#[derive(Clone, Copy)]
pub(crate) struct Late(pub(crate) &'static str, pub(crate) &'static str);

impl Late {
    /// By the name of the type: an attribute does not see more. In what a plain function returns, each name with `Future` at its
    /// end counts as an alias of one; what an async function has awaited may be a struct of such a name.
    fn of(name: &str, is_plain: bool) -> Option<Self> {
        const READ: &str = "Iterator DoubleEndedIterator ExactSizeIterator FusedIterator Stream TryStream \
                            FusedStream BoxStream LocalBoxStream ReceiverStream UnboundedReceiverStream \
                            AsyncIterator BroadcastStream WatchStream IntervalStream LinesStream \
                            SplitStream ReaderStream Streaming";
        const TASKS: &str =
            "JoinHandle ScopedJoinHandle AbortOnDropHandle AbortHandle JoinSet JoinMap";
        const BODIES: &str = "Sse Body BoxBody UnsyncBoxBody StreamBody LockBody Incoming";
        let is_in = |names: &str| names.split(' ').any(|known| known == name);
        Some(match name {
            _ if is_in("Future BoxFuture LocalBoxFuture TryFuture")
                || is_plain && name.ends_with("Future") =>
            {
                Self("would run", "await it in the body, and return its result")
            }
            _ if is_in(READ) => Self(
                "would be read",
                "read it in the body and return a `Vec`, or lock the function that reads it",
            ),
            _ if is_in(TASKS) => {
                Self("may run", "await it in the body, or lock the function that the task runs")
            }
            _ if is_in(BODIES) => Self(
                "would be sent",
                "return what is to be sent, or lock the route by `lock_tower::LockLayer`, which holds until the body \
                 has ended",
            ),
            _ => return None,
        })
    }

    /// Looks into the type of a body's value; `None` if it is hidden by an alias of a future.
    pub(crate) fn find(output: Option<&Type>, is_plain: bool) -> Option<(Ident, Self)> {
        find(output?.to_token_stream(), &|name| Self::of(name, is_plain))
    }
}

/// Returns the first of the names for which `of` has a value. `Item` of `<S as Stream>::Item` is no `Stream`.
fn find<T>(tokens: TokenStream, of: &dyn Fn(&str) -> Option<T>) -> Option<(Ident, T)> {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Ident(word) if word == "as" => {
                for token in tokens.by_ref() {
                    if matches!(&token, TokenTree::Punct(end) if end.as_char() == '>') {
                        break;
                    }
                }
                None
            }
            TokenTree::Ident(word) => of(&word.to_string()).map(|found| (word, found)),
            TokenTree::Group(group) => find(group.stream(), of),
            TokenTree::Punct(_) | TokenTree::Literal(_) => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Returns the `T` of `Future<Output = T>`, wherever it is in the type.
pub(crate) fn output(ty: &Type) -> Option<Type> {
    output_in(ty.to_token_stream())
}

fn output_in(tokens: TokenStream) -> Option<Type> {
    let start = |input: ParseStream<'_>| -> syn::Result<Type> {
        let ty = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(ty)
    };
    let mut rest = tokens.into_iter();
    let mut named = false;
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Punct(equals) if named && equals.as_char() == '=' => {
                return start.parse2(rest.collect()).ok();
            }
            TokenTree::Group(group) => match output_in(group.stream()) {
                None => named = false,
                found => return found,
            },
            TokenTree::Ident(word) => named = word == "Output",
            _ => named = false,
        }
    }
    None
}
