//! Classes of locks: the key template of an attribute or a layer, else the first part of the name.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use lock_syntax::template::{Piece, pieces};

/// What delimits values in a name. Text that has nothing else tells no locks apart.
const SEPARATORS: [char; 3] = [':', '{', '}'];

/// Seeded anew in each process, so that clients cannot choose names that collide.
static HASHING: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The class of a lock, which is neither copied nor allocated: an acquire hashes it and mostly finds the hash.
#[derive(Clone, Copy)]
pub(super) enum Class<'a> {
    /// The name up to its first `:`.
    Name(&'a str),
    /// The first pieces of a template, of which the last is text.
    Template { template: &'a str, pieces: usize },
}

impl<'a> Class<'a> {
    /// The class of the lock of that name, without a namespace, whose site may have that template.
    pub(super) fn new(name: &'a str, template: Option<&'a str>) -> Self {
        let of_template = template.and_then(|template| Self::of_template(template, name));
        of_template.unwrap_or_else(|| Self::Name(name.split(':').next().unwrap_or(name)))
    }

    /// `None` if the template has no text that tells locks apart, or is not of that name: the key was an expression.
    fn of_template(template: &'a str, name: &str) -> Option<Self> {
        let start = template.split('{').next().unwrap_or_default();
        let is_text = |piece| matches!(piece, Ok(Piece::Text(text)) if text.contains(|c| !SEPARATORS.contains(&c)));
        if !template.contains('{')
            || !name.starts_with(start)
            || pieces(template).any(|piece| piece.is_err())
        {
            return None;
        }
        let last = pieces(template).enumerate().filter(|(_, piece)| is_text(*piece)).last();
        last.map(|(last, _)| Self::Template { template, pieces: last + 1 })
    }

    /// Calls `visit` with the parts of its text.
    fn visit(self, mut visit: impl FnMut(&str)) {
        match self {
            Self::Name(name) => visit(name),
            Self::Template { template, pieces: count } => {
                for (number, piece) in pieces(template).take(count).enumerate() {
                    match piece {
                        Ok(Piece::Text(text)) if number + 1 == count => {
                            visit(text.trim_end_matches(':'));
                        }
                        Ok(Piece::Text(text)) => visit(text),
                        Ok(Piece::Placeholder(_)) => visit("{}"),
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// A hash that is the same for the same text, from a name or from a template.
    pub(super) fn key(self) -> u64 {
        let mut hasher = HASHING.build_hasher();
        // Byte by byte: a hasher may tell parts of other lengths apart.
        self.visit(|text| text.bytes().for_each(|byte| hasher.write_u8(byte)));
        hasher.finish()
    }
}

impl fmt::Display for Class<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        self.visit(|text| result = result.and_then(|()| f.write_str(text)));
        result
    }
}

/// The key of a full name.
pub(super) fn key_of_name(name: &str) -> u64 {
    HASHING.hash_one(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, template: Option<&str>) -> String {
        Class::new(name, template).to_string()
    }

    #[test]
    fn names_have_the_class_of_their_first_part() {
        for (name, of) in
            [("order:42", "order"), ("nightly", "nightly"), ("a:b:c", "a"), (":x", "")]
        {
            assert_eq!(class(name, None), of);
        }
    }

    #[test]
    fn templates_have_the_class_of_their_text() {
        for (template, name, of) in [
            ("order:{id}", "order:42", "order"),
            ("order:{id}:{line}", "order:42:1", "order"),
            ("order:{id}:lines", "order:42:lines", "order:{}:lines"),
            ("order:{}", "order:42", "order"),
            ("tenant:{t}:order:{id:raw}", "tenant:7:order:42", "tenant:{}:order"),
            ("{tenant}:order:{id}", "7:order:42", "{}:order"),
            ("cart:{{{id}}}", "cart:{7}", "cart"),
            // No text, or none that a value stands in: the name counts.
            ("{name}", "order:42", "order"),
            ("report:nightly", "report:nightly", "report"),
            // An expression.
            ("format ! (\"order:{id}\")", "order:42", "order"),
            ("if a { x } else { y }", "order:42", "order"),
            ("x{", "x", "x"),
        ] {
            assert_eq!(class(name, Some(template)), of, "{template}");
        }
    }

    #[test]
    fn one_class_has_one_key() {
        let by_name = Class::new("order:42", None).key();
        assert_eq!(Class::new("order:43", Some("order:{id}")).key(), by_name);
        assert_eq!(Class::new("order:43", Some("order:{a}:{b}")).key(), by_name);
        let lines = |template| Class::new("order:1:lines", Some(template)).key();
        assert_eq!(lines("order:{id}:lines"), lines("order:{order_id}:lines"));
        assert_ne!(lines("order:{id}:lines"), by_name);
    }
}
