//! The annotated function, its body left unread: what the compiler accepts there is not our business.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, FnArg, Pat, Signature, Visibility};

use crate::errors::list;

/// A function or method.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// `None` for a trait's method without a default.
    pub(crate) body: Option<Body>,
}

/// The block of a function.
pub(crate) struct Body {
    pub(crate) inner_attrs: Vec<Attribute>,
    /// The statements, in the user's own braces.
    pub(crate) block: Group,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> syn::Result<Self> {
        Self::parse_stream.parse2(item)
    }

    fn parse_stream(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let start = input.cursor();
        let sig = input.parse::<Signature>().map_err(|error| {
            if names_fn(start.token_stream()) {
                error
            } else {
                syn::Error::new(
                    start.span(),
                    "`#[distributed_lock]` goes on an `async fn`; move it to the function that \
                     must run in one place at a time",
                )
            }
        })?;
        let body = if input.peek(syn::Token![;]) {
            input.parse::<syn::Token![;]>()?;
            None
        } else {
            Some(Body::parse(input.parse()?)?)
        };
        Ok(Self { attrs, vis, sig, body })
    }

    pub(crate) fn scope(&self) -> Scope {
        let mut names = Vec::new();
        let mut receiver = None;
        for input in &self.sig.inputs {
            match input {
                FnArg::Receiver(this) => receiver = Some(Ident::from(this.self_token)),
                FnArg::Typed(typed) => collect_names(&typed.pat, &mut names),
            }
        }
        Scope { function: self.sig.ident.clone(), receiver, names }
    }
}

impl Body {
    /// Takes the inner attributes off: they must stay in front of everything else in the function.
    fn parse(block: Group) -> syn::Result<Self> {
        let split = |input: ParseStream<'_>| -> syn::Result<(Vec<Attribute>, TokenStream)> {
            Ok((input.call(Attribute::parse_inner)?, input.parse()?))
        };
        let (inner_attrs, statements) = split.parse2(block.stream())?;
        let mut bare = Group::new(Delimiter::Brace, statements);
        bare.set_span(block.span());
        Ok(Self { inner_attrs, block: bare })
    }
}

/// Whether the item is some kind of function, however odd.
fn names_fn(item: TokenStream) -> bool {
    item.into_iter()
        .take_while(
            |token| !matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace),
        )
        .take(8)
        .any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

/// What a placeholder can name.
pub(crate) struct Scope {
    function: Ident,
    receiver: Option<Ident>,
    names: Vec<Ident>,
}

impl Scope {
    /// The argument of this name. Its own token carries the hygiene with which the body sees it.
    pub(crate) fn find(&self, name: &str) -> Option<&Ident> {
        if name == "self" {
            return self.receiver.as_ref();
        }
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.names.iter().find(|argument| argument.unraw() == name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let arguments = self.names.iter().map(|name| name.unraw().to_string());
        self.receiver.iter().map(ToString::to_string).chain(arguments).collect()
    }

    /// "`pay` has the arguments …", for messages.
    pub(crate) fn describe(&self) -> String {
        let names = self.names();
        match names.len() {
            0 => format!("`{}` has no named arguments", self.function),
            1 => format!("`{}` has only `{}`", self.function, names[0]),
            _ => {
                let names = list(names.iter().map(String::as_str), "and");
                format!("`{}` has {names}", self.function)
            }
        }
    }
}

fn collect_names(pat: &Pat, names: &mut Vec<Ident>) {
    let mut all = |pats: &mut dyn Iterator<Item = &Pat>| {
        for pat in pats {
            collect_names(pat, names);
        }
    };
    match pat {
        Pat::Ident(binding) => {
            all(&mut binding.subpat.iter().map(|(_, pat)| &**pat));
            names.push(binding.ident.clone());
        }
        // Every alternative binds the same names.
        Pat::Or(or) => all(&mut or.cases.iter().take(1)),
        Pat::Paren(paren) => collect_names(&paren.pat, names),
        Pat::Reference(reference) => collect_names(&reference.pat, names),
        Pat::Slice(slice) => all(&mut slice.elems.iter()),
        Pat::Struct(fields) => all(&mut fields.fields.iter().map(|field| &*field.pat)),
        Pat::Tuple(tuple) => all(&mut tuple.elems.iter()),
        Pat::TupleStruct(tuple) => all(&mut tuple.elems.iter()),
        Pat::Type(typed) => collect_names(&typed.pat, names),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn names(item: TokenStream) -> Vec<String> {
        Function::parse(item).unwrap().scope().names()
    }

    #[test]
    fn names_come_from_every_pattern() {
        let found = names(quote! {
            async fn f(
                &self, mut a: A, Path(b): Path<u64>, (c, [d, ..]): T, P { e, f: g, .. }: P, _: u8,
                &h: &u8, (X(i) | Y(i)): E, whole @ (j, _): (u8, u8), r#type: K,
            ) {}
        });
        let expected = ["self", "a", "b", "c", "d", "e", "g", "h", "i", "j", "whole", "type"]
            .map(String::from);
        assert_eq!(found, expected);
    }

    #[test]
    fn the_body_may_be_anything_between_braces() {
        let function = Function::parse(quote! {
            #[doc = "x"] pub(crate) async fn f() { #![allow(unused)] let x = ; yield 3 }
        })
        .unwrap();
        let body = function.body.unwrap();
        assert_eq!(body.inner_attrs.len(), 1);
        assert_eq!(body.block.to_string(), quote!({ let x = ; yield 3 }).to_string());
    }

    #[test]
    fn other_items_are_told_where_the_attribute_goes() {
        for item in [
            quote!(
                struct S;
            ),
            quote!(impl S { async fn f() {} }),
            quote!(),
        ] {
            let error = Function::parse(item).err().unwrap();
            assert!(error.to_string().contains("goes on an `async fn`"), "{error}");
        }
        let error = Function::parse(quote!(async fn f(3) {})).err().unwrap();
        assert!(!error.to_string().contains("goes on"), "{error}");
    }
}
