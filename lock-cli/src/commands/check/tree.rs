//! A file as tables and values with their lines, whatever its format.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table of a file, in its order.
pub(super) struct Table(Vec<Entry>);

struct Entry {
    key: String,
    /// Where it begins, counted from one; `None` in a format that does not say it.
    line: Option<usize>,
    node: Node,
}

enum Node {
    Table(Table),
    /// A value as it would be written.
    Value(String),
    /// A text, with and without its quotation marks.
    Text {
        quoted: String,
        plain: String,
    },
}

impl Table {
    /// `None` if it cannot be parsed.
    pub(super) fn of_toml(text: &str) -> Option<Self> {
        let parsed = DeTable::parse(text).ok()?;
        let line = |at: usize| 1 + text.get(..at).map_or(0, |before| before.matches('\n').count());
        Some(Self::of_toml_table(parsed.get_ref(), text, &line))
    }

    fn of_toml_table(table: &DeTable<'_>, text: &str, line: &dyn Fn(usize) -> usize) -> Self {
        let entries = table.iter().map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            line: Some(line(value.span().start)),
            node: toml_node(value, text, line),
        });
        Self(entries.collect())
    }

    /// `None` if it cannot be parsed.
    pub(super) fn of_json(text: &str) -> Option<Self> {
        match serde_json::from_str(text).ok()? {
            Value::Object(object) => Some(Self::of_json_object(object)),
            _ => None,
        }
    }

    fn of_json_object(object: serde_json::Map<String, Value>) -> Self {
        let entries = object.into_iter().map(|(key, value)| {
            let node = match value {
                Value::Object(object) => Node::Table(Self::of_json_object(object)),
                Value::String(plain) => {
                    Node::Text { quoted: Value::String(plain.clone()).to_string(), plain }
                }
                other => Node::Value(other.to_string()),
            };
            Entry { key, line: None, node }
        });
        Self(entries.collect())
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    pub(super) fn table(&self, key: &str) -> Option<&Self> {
        match &self.entry(key)?.node {
            Node::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.entry(key)?.node {
            Node::Text { plain, .. } => Some(plain),
            _ => None,
        }
    }

    /// The tables in this one, by name.
    pub(super) fn tables(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.0.iter().filter_map(|entry| match &entry.node {
            Node::Table(table) => Some((&*entry.key, table)),
            _ => None,
        })
    }

    /// The fields, their values and their lines. The fields of the table `apart` are listed one by one.
    pub(super) fn values(&self, apart: &str) -> Vec<(String, String, Option<usize>)> {
        let mut values = Vec::new();
        for Entry { key, line, node } in &self.0 {
            match node {
                Node::Table(table) if key == apart => {
                    let fields = table.values("").into_iter();
                    values.extend(
                        fields.map(|(field, value, line)| (format!("{key}.{field}"), value, line)),
                    );
                }
                Node::Table(table) => values.push((key.clone(), table.in_line(), *line)),
                Node::Value(value) | Node::Text { quoted: value, .. } => {
                    values.push((key.clone(), value.clone(), *line));
                }
            }
        }
        values
    }

    /// `{ acks = 1, timeout = "200ms" }`.
    fn in_line(&self) -> String {
        let fields =
            self.values("").into_iter().map(|(field, value, _)| format!("{field} = {value}"));
        format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
    }
}

fn toml_node(value: &Spanned<DeValue<'_>>, text: &str, line: &dyn Fn(usize) -> usize) -> Node {
    let written = || text.get(value.span()).unwrap_or_default().to_owned();
    match value.get_ref() {
        DeValue::Table(table) => Node::Table(Table::of_toml_table(table, text, line)),
        DeValue::String(plain) => Node::Text { quoted: written(), plain: plain.to_string() },
        _ => Node::Value(written()),
    }
}
