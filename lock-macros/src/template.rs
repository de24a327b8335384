//! Key templates: literal text with `{placeholders}`, taken apart and checked when compiled.
//!
//! What is checked here are the rules of keys as far as they can be known without the values:
//! the text has no control characters, is not too long, its braces form one hash tag, and no two
//! different lists of values can make the same key.
// S-1, S-2, S-3.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, LitStr};

use crate::args::KeyForm;
use crate::errors::nearest;
use crate::item::Scope;

/// Longest literal text: the longest key.
// S-1.
const MAX_TEXT_BYTES: usize = 512;

/// One piece of a key, ready to be built.
pub(crate) enum Piece {
    Text(String),
    /// A value: an expression that borrows it.
    Part {
        borrow: TokenStream,
        raw: bool,
    },
}

/// A key, checked.
pub(crate) enum Key {
    Pieces(Vec<Piece>),
    /// An expression that is the key itself.
    Expression(TokenStream),
}

/// Checks a key as it was written.
pub(crate) fn key(form: &KeyForm, scope: &Scope) -> syn::Result<Key> {
    match form {
        KeyForm::Template(text) => named(text, scope).map(Key::Pieces),
        KeyForm::Filled(text, values) => filled(text, values, scope).map(Key::Pieces),
        KeyForm::Expression(value) => Ok(Key::Expression(scope.see(value))),
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
                Piece::Part { borrow: borrow_of(&scope.see(value)), raw }
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

/// A template taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(String),
    Hole { path: String, raw: bool },
}

fn segments(template: &str) -> Result<Vec<Segment>, String> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let (brace, tail) = rest[at..].split_at(1);
        rest = if let Some(tail) = tail.strip_prefix(brace) {
            text.push_str(brace);
            tail
        } else if brace == "{" {
            let (hole, tail) = tail
                .split_once('}')
                .filter(|(hole, _)| !hole.contains('{'))
                .ok_or("a `{` is never closed; write `{{` for a brace that is part of the key")?;
            if !text.is_empty() {
                found.push(Segment::Text(std::mem::take(&mut text)));
            }
            found.push(placeholder(hole)?);
            tail
        } else {
            return Err(
                "a `}` closes nothing; write `}}` for a brace that is part of the key".to_owned()
            );
        };
    }
    text.push_str(rest);
    if !text.is_empty() {
        found.push(Segment::Text(text));
    }
    check(&found)?;
    Ok(found)
}

fn placeholder(hole: &str) -> Result<Segment, String> {
    let (path, raw) = match hole.split_once(':') {
        None => (hole, false),
        Some((path, "raw")) => (path, true),
        // `Self::NAME` is no format, but no argument either.
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

/// The rules that hold for every value that could be filled in.
fn check(segments: &[Segment]) -> Result<(), String> {
    let text = || {
        segments.iter().filter_map(|segment| match segment {
            Segment::Text(text) => Some(text.as_str()),
            Segment::Hole { .. } => None,
        })
    };
    if segments.is_empty() {
        return Err(r#"the key is empty; give the lock a name, such as `"order:{id}"`"#.to_owned());
    }
    if let Some(control) = text().flat_map(str::chars).find(|c| c.is_control()) {
        return Err(format!(
            "the key contains the control character {control:?}, which no key may; take it out"
        ));
    }
    let bytes: usize = text().map(str::len).sum();
    if bytes > MAX_TEXT_BYTES {
        return Err(format!(
            "the key has {bytes} bytes of text and the limit is {MAX_TEXT_BYTES}; shorten it"
        ));
    }
    check_hash_tag(segments)?;
    check_companions(segments)?;
    check_separators(segments)
}

/// What the keys that belong to other locks begin with, as in `lock_runtime`'s `key::companion`.
// S-2.
const RESERVED_BEGINNINGS: [&str; 12] = [
    "redisson_lock_token:",
    "redisson_lock_queue:",
    "redisson_lock_timeout:",
    "redisson_lock__channel:",
    "redisson_unlock_latch:",
    "redisson_rwlock:",
    "redisson_rwlock_writers:",
    "redisson_rwlock_readers:",
    "redisson_rwlock_due_readers:",
    "redisson_sc:",
    "redisson_countdownlatch__channel:",
    "redisson_countdownlatch__channel__{",
];

/// A lock must not have the name of a key that belongs to another lock. What values add is checked
/// when they are known.
// S-2.
fn check_companions(segments: &[Segment]) -> Result<(), String> {
    if let Some(Segment::Text(text)) = segments.first()
        && let Some(found) = RESERVED_BEGINNINGS.iter().find(|found| text.starts_with(**found))
    {
        return Err(format!(
            "the key begins with `{found}`, which is reserved for the keys of other locks; put text \
             in front of it"
        ));
    }
    let tagged =
        segments.iter().any(|piece| matches!(piece, Segment::Text(text) if text.contains('{')));
    match segments.last() {
        Some(Segment::Text(text)) if tagged && text.ends_with(":timeout") => {
            Err("the key ends with `:timeout` behind a hash tag, which is reserved for the keys of other \
                 locks; choose another ending"
                .to_owned())
        }
        _ => Ok(()),
    }
}

/// Braces must form a hash tag as Redis Cluster finds it.
// S-2.
fn check_hash_tag(segments: &[Segment]) -> Result<(), String> {
    let mut shape = String::new();
    for segment in segments {
        match segment {
            Segment::Text(text) => shape.push_str(text),
            // Raw values may bring braces of their own.
            Segment::Hole { raw: true, .. } => return Ok(()),
            Segment::Hole { raw: false, .. } => shape.push('_'),
        }
    }
    let good = match shape.split_once('{') {
        None => !shape.contains('}'),
        Some((_, rest)) => rest.find('}').is_some_and(|end| end > 0),
    };
    if good {
        return Ok(());
    }
    Err("the braces in this key form no hash tag; write `{{tag}}`, or leave them out".to_owned())
}

/// Two neighbouring values need text between them that an escaped value never contains, else
/// `("ab", "c")` and `("a", "bc")` would be one key.
// S-3.
fn check_separators(segments: &[Segment]) -> Result<(), String> {
    let mut before: Option<&str> = None;
    let mut separated = false;
    for segment in segments {
        match segment {
            // `%` is escaped too, but starts every escape itself.
            Segment::Text(text) => {
                separated |= text.contains([':', '{', '}', '*', '?', '[', ']', '\\'])
                    || text.contains(char::is_whitespace);
            }
            Segment::Hole { raw: true, .. } => before = None,
            Segment::Hole { path, raw: false } => {
                if let Some(before) = before.filter(|_| !separated) {
                    return Err(format!(
                        "`{{{before}}}` and `{{{path}}}` could run together, and different values \
                         then make the same key; put a `:` between them"
                    ));
                }
                (before, separated) = (Some(path.as_str()), false);
            }
        }
    }
    Ok(())
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
    // Code of ours, else the compiler would offer to write a field's name over the whole literal.
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

/// Where the tokens begin and end; one span over all of them cannot be had on stable.
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
