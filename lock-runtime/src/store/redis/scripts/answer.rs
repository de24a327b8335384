//! What scripts answer.

use redis::{RedisResult, Value};

/// The answer of one script.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Number(i64),
    /// Digits: a fencing token.
    Token(u64),
    /// Anything else, errors included.
    Other(Value),
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        match value {
            Value::Int(number) => Self::Number(number),
            Value::BulkString(text) => {
                Self::of_text(&text).unwrap_or(Self::Other(Value::BulkString(text)))
            }
            other => Self::Other(other),
        }
    }
}

impl Answer {
    /// The answer that a script wrote as text: digits, or a colon and a number.
    fn of_text(text: &[u8]) -> Option<Self> {
        match text {
            b":0" => Some(Self::Number(0)),
            [b':', number @ ..] => std::str::from_utf8(number).ok()?.parse().ok().map(Self::Number),
            digits => token(digits).map(Self::Token),
        }
    }

    /// The answer, or the error that the server answered with.
    pub(crate) fn unless_error(self) -> RedisResult<Self> {
        match self {
            Self::Other(Value::ServerError(error)) => Err(error.into()),
            answer => Ok(answer),
        }
    }

    /// The answers in a reply to call `number`; `None` if it is the reply to another call. The reply is a list, or
    /// text with a space between the answers, which both sides read and write faster.
    pub(super) fn all_in(reply: Value, number: u64) -> Option<Vec<Self>> {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(number).as_bytes();
        match reply {
            Value::BulkString(text) => {
                let (first, rest) = text.split_at_checked(number.len())?;
                let rest = rest.strip_prefix(b" ")?;
                let answers = rest.split(|byte| *byte == b' ').map(Self::of_text);
                if first == number { answers.collect() } else { None }
            }
            Value::Array(parts) => {
                let mut parts = parts.into_iter();
                let Some(Value::BulkString(first)) = parts.next() else { return None };
                (first == number).then(|| parts.map(Self::from).collect())
            }
            _ => None,
        }
    }
}

/// A number of digits only.
fn token(digits: &[u8]) -> Option<u64> {
    let more = |number: u64, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, more) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_list_and_text_mean_the_same() {
        let list = Value::Array(vec![text("42"), text("170"), Value::Int(0), text(":-1")]);
        let expected = Some(vec![Answer::Token(170), Answer::Number(0), Answer::Number(-1)]);
        assert_eq!(Answer::all_in(list, 42), expected);
        assert_eq!(Answer::all_in(text("42 170 :0 :-1"), 42), expected);
    }

    #[test]
    fn only_a_reply_with_the_number_is_an_answer() {
        assert_eq!(Answer::all_in(Value::Array(vec![text("42")]), 42), Some(Vec::new()));
        let others = ["43 1", "4 1", "42", "421 1", "42 x", "42 1 ", ""];
        for other in others.map(text).into_iter().chain([
            Value::Int(42),
            Value::Nil,
            Value::Array(vec![text("43"), Value::Int(7)]),
            Value::Array(vec![Value::Int(42), Value::Int(7)]),
            Value::Array(Vec::new()),
        ]) {
            assert_eq!(Answer::all_in(other.clone(), 42), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_neither_number_nor_token_stays() {
        for other in [text("a"), text(""), text(":"), text("-1"), text("+1"), Value::Nil] {
            assert_eq!(Answer::from(other.clone()), Answer::Other(other));
        }
    }
}
