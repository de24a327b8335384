//! The annotated function. Its body is not parsed, except for what `#[async_trait]` adds to it, so it may
//! contain any code that the compiler accepts.

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Expr, FnArg, Pat, PatType, ReturnType, Signature, Stmt, Type, Visibility};

use crate::errors::list;
pub(crate) use crate::form::Form;
use crate::form::output;
use crate::validate::inner_type;

/// A function or method.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// `None` for a trait's method without a default.
    pub(crate) body: Option<Body>,
    pub(crate) form: Form,
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
            Some(Body::parse(block(input)?)?)
        };
        let mut function = Self { attrs, vis, form: Form::of(&sig), sig, body };
        function.unwrap_async_trait();
        Ok(function)
    }

    /// Removes the other `#[distributed_lock]` attributes of the function and returns them.
    pub(crate) fn take_stacked(&mut self) -> Vec<Attribute> {
        self.attrs.extract_if(.., |attr| is_lock(attr)).collect()
    }

    /// Returns the type of the body's value, if the signature shows it.
    pub(crate) fn output(&self) -> Option<Type> {
        match (&self.sig.output, &self.form) {
            (ReturnType::Default, _) => Some(syn::parse_quote!(())),
            (ReturnType::Type(_, ty), Form::Async | Form::Sync) => Some((**ty).clone()),
            // Of `BoxFuture<'_, T>` it is the last argument.
            (ReturnType::Type(_, ty), _) => output(ty).or_else(|| inner_type(ty).cloned()),
        }
    }

    /// Takes apart a method that `#[async_trait]` has expanded. That attribute is on the `impl`, so it expands
    /// before this one.
    fn unwrap_async_trait(&mut self) {
        let marks = |lifetime: &syn::LifetimeParam| lifetime.lifetime.ident == "async_trait";
        if !self.sig.generics.lifetimes().any(marks) {
            return;
        }
        if let Some(body) = &mut self.body
            && let Some((prologue, block)) = inside_pinned_box(&body.block)
        {
            body.block = block;
            self.form = Form::AsyncTrait { prologue };
        }
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
        if let Form::AsyncTrait { prologue } = &self.form {
            // Arguments that the prologue does not bind again keep the names of the signature.
            let outside = std::mem::take(&mut names);
            for stmt in prologue {
                if let Stmt::Local(local) = stmt {
                    collect_names(&local.pat, &mut names);
                }
            }
            let this = names.iter().position(|name| name == "__self");
            receiver = this.map(|this| names.remove(this)).or(receiver);
            let is_new = |name: &Ident| !name.to_string().starts_with("__arg");
            let bound = names.len();
            for name in outside {
                if is_new(&name) && !names[..bound].contains(&name) {
                    names.push(name);
                }
            }
        }
        Scope { function: self.sig.ident.clone(), receiver, names }
    }

    /// Returns the arguments that the body mentions, the last one first.
    pub(crate) fn mentioned(&self, scope: &Scope) -> Vec<Ident> {
        let Some(body) = &self.body else { return Vec::new() };
        let mut conditional = Vec::new();
        for input in &self.sig.inputs {
            if let FnArg::Typed(typed) = input
                && is_conditional(typed)
            {
                collect_names(&typed.pat, &mut conditional);
            }
        }
        let all = scope.receiver.iter().chain(&scope.names);
        let is_mentioned =
            |name: &&Ident| !conditional.contains(name) && mentions(body.block.stream(), name);
        let mut found: Vec<_> = all.filter(is_mentioned).cloned().collect();
        found.reverse();
        found
    }

    /// Returns the arguments for a call of another function with the same parameters, or what is wrong with one of
    /// them.
    pub(crate) fn arguments(&self, scope: &Scope) -> Result<Vec<Ident>, &'static str> {
        let unnamed = "has no name; write it as `name: Type` and take it apart in the body";
        let name = |input: &FnArg| match input {
            FnArg::Receiver(_) => scope.receiver.clone().ok_or(unnamed),
            FnArg::Typed(typed) if is_conditional(typed) => {
                Err("is only there under a `cfg`; take the `cfg` off it")
            }
            FnArg::Typed(typed) => match &*typed.pat {
                Pat::Ident(name) if name.subpat.is_none() => {
                    scope.find(&name.ident.to_string()).cloned().ok_or(unnamed)
                }
                _ => Err(unnamed),
            },
        };
        self.sig.inputs.iter().map(name).collect()
    }
}

pub(crate) fn is_lock(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|last| last.ident == "distributed_lock")
}

/// Returns true if a `cfg` may remove the argument.
fn is_conditional(argument: &PatType) -> bool {
    argument.attrs.iter().any(|attr| attr.path().is_ident("cfg"))
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    // How many dots stand right before the token.
    let mut dots = 0;
    tokens.into_iter().any(|token| {
        // A name behind one dot is a field or a method; behind two or three dots it ends a range.
        let dots_before = std::mem::take(&mut dots);
        match token {
            TokenTree::Ident(word) => dots_before != 1 && word == *name,
            TokenTree::Group(group) => mentions(group.stream(), name),
            TokenTree::Punct(dot) => {
                dots = if dot.as_char() == '.' { dots_before + 1 } else { 0 };
                false
            }
            // `format!("{name}")` borrows the whole argument, so it needs no mention.
            TokenTree::Literal(_) => false,
        }
    })
}

/// Splits `{ Box::pin(async move { let x = x; … }) }` into the statements that bind the arguments, and the rest.
fn inside_pinned_box(block: &Group) -> Option<(Vec<Stmt>, Group)> {
    let Ok(Expr::Call(call)) = syn::parse2(block.stream()) else { return None };
    let Some(Expr::Async(future)) = call.args.into_iter().next() else { return None };
    let binds =
        |stmt: &Stmt| matches!(stmt, Stmt::Local(local) if !matches!(local.pat, Pat::Type(_)));
    let mut stmts = future.block.stmts;
    // `#[async_trait]` first states the result type, for bodies from which it cannot be inferred.
    let hint = stmts.first().is_some_and(|stmt| matches!(stmt, Stmt::Expr(Expr::If(_), _)));
    let start = usize::from(hint);
    let end = start + stmts[start..].iter().take_while(|stmt| binds(stmt)).count();
    let prologue = stmts.drain(start..end).collect();
    let mut rest = Group::new(Delimiter::Brace, quote!(#(#stmts)*));
    rest.set_span(block.span());
    Some((prologue, rest))
}

/// Parses the body. A `macro_rules!` variable wraps it in invisible brackets.
fn block(input: ParseStream<'_>) -> syn::Result<Group> {
    let mut token = input.parse::<TokenTree>()?;
    loop {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return Ok(group),
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                token = syn::parse2(group.stream())?;
            }
            token => return Err(syn::Error::new(token.span(), "expected the `{` of the body")),
        }
    }
}

impl Body {
    /// Separates the inner attributes, which must stay in front of all other statements.
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

/// Returns true if the item is a function of any kind, even with errors in its signature.
fn names_fn(item: TokenStream) -> bool {
    item.into_iter()
        .take_while(
            |token| !matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace),
        )
        .take(8)
        .any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

/// The arguments that a placeholder can name.
pub(crate) struct Scope {
    function: Ident,
    receiver: Option<Ident>,
    names: Vec<Ident>,
}

impl Scope {
    /// Returns the argument of this name, as the token in the signature: its span has the hygiene that the body needs.
    pub(crate) fn find(&self, name: &str) -> Option<&Ident> {
        if name == "self" {
            return self.receiver.as_ref();
        }
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.names.iter().find(|argument| argument.unraw() == name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let arguments = self.names.iter().map(|name| name.unraw().to_string());
        self.receiver.iter().map(|_| "self".to_owned()).chain(arguments).collect()
    }

    /// Returns the expression with `self` replaced by the name that it has where the expression is evaluated.
    pub(crate) fn rename_self(&self, expression: &Expr) -> TokenStream {
        match &self.receiver {
            Some(this) if this != "self" => replace_self(expression.to_token_stream(), this),
            _ => expression.to_token_stream(),
        }
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

fn replace_self(tokens: TokenStream, this: &Ident) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let renamed = std::iter::from_fn(|| {
        let token = tokens.next()?;
        // In `self::path` it is a module.
        let is_module = matches!(tokens.peek(), Some(TokenTree::Punct(colon))
            if colon.as_char() == ':' && colon.spacing() == Spacing::Joint);
        Some((token, is_module))
    });
    let renamed = renamed.map(|(token, is_module)| match token {
        TokenTree::Ident(word) if word == "self" && !is_module => {
            let mut this = this.clone();
            this.set_span(this.span().located_at(word.span()));
            this.into()
        }
        TokenTree::Group(group) => {
            let mut inside = Group::new(group.delimiter(), replace_self(group.stream(), this));
            inside.set_span(group.span());
            inside.into()
        }
        token => token,
    });
    renamed.collect()
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
