//! Key templates: literal text with `{placeholders}`, parsed and checked at compile time.
//!
//! This module checks the rules of keys as far as possible without the values: the text has no control
//! characters, is not too long, its braces form one hash tag, and no two different lists of values can make the
//! same key.
// S-1, S-2, S-3.

use lock_syntax::name::{self, MAX_KEY_BYTES, NameProblem, Reserved, braces_form_hash_tag};
use lock_syntax::template::{self, BraceProblem, Part};
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, LitStr};

use crate::args::KeyForm;
use crate::errors::nearest;
use crate::item::Scope;

/// One piece of a key, ready to be built.
pub(crate) enum Piece {
    Text(String),
    /// A value: an expression that borrows it.
    Part {
        borrow: TokenStream,
        raw: bool,
    },
}

/// A checked key.
pub(crate) enum Key {
    Pieces(Vec<Piece>),
    /// An expression that is the key itself.
    Expression(TokenStream),
}

/// Checks a key as written.
pub(crate) fn key(form: &KeyForm, scope: &Scope) -> syn::Result<Key> {
    match form {
        KeyForm::Template(text) => named(text, scope).map(Key::Pieces),
        KeyForm::Filled(text, values) => filled(text, values, scope).map(Key::Pieces),
        KeyForm::Expression(value) => Ok(Key::Expression(scope.rename_self(value))),
    }
}

/// `key = "order:{order.id}"`: every placeholder names an argument.
fn named(literal: &LitStr, scope: &Scope) -> syn::Result<Vec<Piece>> {
    let at = |message| syn::Error::new(literal.span(), message);
    let segments = segments(&literal.value()).map_err(at)?;
    let piece = |segment| match segment {
        Segment::Text(text) => Ok(Piece::Text(text)),
        Segment::Hole { path, raw } => {
            let borrow = borrow(&path, scope, literal.span()).map_err(at)?;
            Ok(Piece::Part { borrow, raw })
        }
    };
    segments.into_iter().map(piece).collect()
}

/// `key("order:{}", order.id)`: the expressions fill the placeholders in order.
fn filled(literal: &LitStr, values: &[Expr], scope: &Scope) -> syn::Result<Vec<Piece>> {
    let at = |message: String| syn::Error::new(literal.span(), message);
    let mut rest = values.iter();
    let mut pieces = Vec::new();
    for segment in segments(&literal.value()).map_err(at)? {
        pieces.push(match segment {
            Segment::Text(text) => Piece::Text(text),
            Segment::Hole { path, .. } if !path.is_empty() => {
                return Err(at(format!(
                    "`{{{path}}}` has a name, but here the values follow the text; write `{{}}` \
                     and put `{path}` behind, or write `key = {:?}`",
                    literal.value()
                )));
            }
            Segment::Hole { raw, .. } => {
                let value = rest.next().ok_or_else(|| {
                    at("a placeholder has no value; add one expression for each `{}`".to_owned())
                })?;
                Piece::Part { borrow: borrow_of(&scope.rename_self(value)), raw }
            }
        });
    }
    match rest.next() {
        None => Ok(pieces),
        Some(extra) => Err(syn::Error::new_spanned(
            extra,
            "no placeholder is left for this value; add a `{}` to the text or take the value out",
        )),
    }
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(String),
    Hole { path: String, raw: bool },
}

fn segments(template: &str) -> Result<Vec<Segment>, String> {
    let parsed = template::parse(template).map_err(|problem| match problem {
        BraceProblem::Unclosed => {
            "a `{` is never closed; write `{{` for a brace that is part of the key"
        }
        BraceProblem::Unopened => {
            "a `}` closes nothing; write `}}` for a brace that is part of the key"
        }
    })?;
    let segment = |segment| match segment {
        template::Segment::Text(text) => Ok(Segment::Text(text)),
        template::Segment::Placeholder(hole) => placeholder(hole),
    };
    let found = parsed.into_iter().map(segment).collect::<Result<Vec<_>, _>>()?;
    check(&found)?;
    Ok(found)
}

fn placeholder(hole: &str) -> Result<Segment, String> {
    let (path, raw) = match hole.split_once(':') {
        None => (hole, false),
        Some((path, "raw")) => (path, true),
        // `Self::NAME` is not a format, but not an argument either.
        Some((_, rest)) if rest.starts_with(':') => (hole, false),
        Some((path, _)) => {
            return Err(format!(
                "`{{{hole}}}` has a format; the only one is `{{{path}:raw}}`, a value without \
                 escaping"
            ));
        }
    };
    Ok(Segment::Hole { path: path.trim().to_owned(), raw })
}

/// Checks the rules for every possible value.
fn check(segments: &[Segment]) -> Result<(), String> {
    let has_raw = segments.iter().any(|segment| matches!(segment, Segment::Hole { raw: true, .. }));
    let parts = || {
        segments.iter().map(|segment| match segment {
            Segment::Text(text) => Part::Text(text.as_str()),
            Segment::Hole { raw: true, .. } => Part::Raw,
            Segment::Hole { path, raw: false } => Part::Escaped(path.as_str()),
        })
    };
    // A name with the shape of every key. No value is empty, and each is at least as long as `_`.
    let shape: String =
        parts().map(|part| if let Part::Text(text) = part { text } else { "_" }).collect();
    name::check(&shape).map_err(|problem| match problem {
        NameProblem::Empty => {
            r#"the key is empty; give the lock a name, such as `"order:{id}"`"#.to_owned()
        }
        NameProblem::TooLong(bytes) => {
            format!(
                "the key has {bytes} bytes of text and the limit is {MAX_KEY_BYTES}; shorten it"
            )
        }
        NameProblem::Control(control) => {
            format!(
                "the key contains the control character {control:?}, which no key may; take it out"
            )
        }
    })?;
    // Raw values may contain braces.
    if !has_raw && !braces_form_hash_tag(&shape) {
        return Err("the braces in this key form no hash tag; write `{{tag}}`, or leave them out"
            .to_owned());
    }
    match name::reserved(&shape) {
        None => {}
        Some(Reserved::Beginning(found)) => {
            return Err(format!(
                "the key begins with `{found}`, which is reserved for the keys of other locks; put text \
                 in front of it"
            ));
        }
        Some(Reserved::Ending(found)) => {
            return Err(format!(
                "the key ends with `{found}` behind a hash tag, which is reserved for the keys of other \
                 locks; choose another ending"
            ));
        }
    }
    match template::unseparated(parts()) {
        None => Ok(()),
        Some((before, after)) => Err(format!(
            "`{{{before}}}` and `{{{after}}}` could run together, and different values then make the same \
             key; put a `:` between them"
        )),
    }
}

/// `order.id` → `&order.id`, at the literal, with the hygiene of the argument.
fn borrow(path: &str, scope: &Scope, literal: Span) -> Result<TokenStream, String> {
    let mut steps = path.split('.').map(str::trim);
    let first = steps.next().unwrap_or_default();
    if path.is_empty() {
        return Err(match scope.names().first() {
            Some(name) => format!("`{{}}` names nothing; write the argument, such as `{{{name}}}`"),
            None => "`{}` names nothing, and there are no arguments to name".to_owned(),
        });
    }
    if !is_word(first.strip_prefix("r#").unwrap_or(first)) {
        return Err(not_a_path(path));
    }
    let argument = scope.find(first).ok_or_else(|| unknown(first, scope))?;
    let mut start = argument.clone();
    start.set_span(argument.span().located_at(literal));
    let mut tokens = quote_spanned!(literal=> &#start);
    // Generated code; otherwise the compiler would offer to write a field's name over the whole literal.
    let behind = Span::mixed_site().located_at(literal);
    for step in steps {
        let step = self::step(step, behind).ok_or_else(|| not_a_path(path))?;
        tokens.extend(quote_spanned!(behind=> .#step));
    }
    Ok(tokens)
}

/// A field, a tuple index, or a method without arguments.
fn step(step: &str, span: Span) -> Option<TokenStream> {
    if step.bytes().all(|byte| byte.is_ascii_digit()) {
        let mut index = Literal::u32_unsuffixed(step.parse().ok()?);
        index.set_span(span);
        return Some(quote!(#index));
    }
    let (name, call) = match step.strip_suffix("()") {
        Some(name) => (name.trim_end(), Some(quote_spanned!(span=> ()))),
        None => (step, None),
    };
    let (bare, raw) = match name.strip_prefix("r#") {
        Some(bare) => (bare, true),
        None => (name, false),
    };
    if !is_word(bare) {
        return None;
    }
    // Keywords are no identifiers, and `parse_str` knows them.
    let name = syn::parse_str::<Ident>(name).ok()?;
    let name = if raw { Ident::new_raw(bare, span) } else { Ident::new(&name.to_string(), span) };
    Some(quote!(#name #call))
}

/// `&(value)`, reported at the value.
pub(crate) fn borrow_of(value: &impl ToTokens) -> TokenStream {
    let (open, close) = ends(value);
    let mut group = Group::new(Delimiter::Parenthesis, value.to_token_stream());
    group.set_span(close);
    quote_spanned!(open=> & #group)
}

/// Where the tokens begin and end; stable Rust has no span over all of them.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
    let open = spans.next().unwrap_or_else(Span::call_site);
    (open, spans.last().unwrap_or(open))
}

fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn not_a_path(path: &str) -> String {
    format!(
        "`{{{path}}}` is not an argument with fields or argument-less methods behind it; any other \
         expression goes in as `key(\"…{{}}\", {path})`"
    )
}

fn unknown(name: &str, scope: &Scope) -> String {
    let names = scope.names();
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean `{{{near}}}`?"),
        None => String::new(),
    };
    format!("the key names `{name}`, which is no argument: {}{hint}", scope.describe())
}

#[cfg(test)]
mod tests;
