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
        match Self::first_in(text)? {
            (answer, []) => Some(answer),
            _ => None,
        }
    }

    /// The answer before the first space, and what follows that answer.
    fn first_in(text: &[u8]) -> Option<(Self, &[u8])> {
        let Some(number) = text.strip_prefix(b":") else {
            let (token, rest) = number_in(text)?;
            return Some((Self::Token(token), rest));
        };
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        let (size, rest) = number_in(digits)?;
        let size = i64::try_from(size).ok()?;
        let is_negative = digits.len() < number.len();
        Some((Self::Number(if is_negative { -size } else { size }), rest))
    }

    /// The answer, or the error that the server answered with.
    pub(crate) fn unless_error(self) -> RedisResult<Self> {
        match self {
            Self::Other(Value::ServerError(error)) => Err(error.into()),
            answer => Ok(answer),
        }
    }

    /// The answers in a reply to call `number` of so many requests; `None` if it is the reply to another call. The reply
    /// is a list, or text with a space between the answers, which both sides read and write faster.
    pub(crate) fn all_in(reply: Value, number: u64, requests: usize) -> Option<Vec<Self>> {
        let mut answers = Vec::with_capacity(requests);
        Self::each_in(reply, number, |answer| answers.push(answer))?;
        (answers.len() == requests).then_some(answers)
    }

    /// As [`all_in`](Self::all_in) for one request.
    pub(crate) fn only_in(reply: Value, number: u64) -> Option<Self> {
        let (mut only, mut count) = (None, 0);
        Self::each_in(reply, number, |answer| {
            only = Some(answer);
            count += 1;
        })?;
        only.filter(|_| count == 1)
    }

    /// Passes on the answers in a reply to call `number`; `None` if the reply is another one.
    fn each_in(reply: Value, number: u64, mut pass: impl FnMut(Self)) -> Option<()> {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(number).as_bytes();
        match reply {
            Value::BulkString(text) => {
                let (first, rest) = text.split_at_checked(number.len())?;
                let mut rest = Some(rest).filter(|_| first == number)?;
                while !rest.is_empty() {
                    let (answer, behind) = Self::first_in(rest.strip_prefix(b" ")?)?;
                    pass(answer);
                    rest = behind;
                }
            }
            Value::Array(parts) => {
                let mut parts = parts.into_iter();
                match parts.next() {
                    Some(Value::BulkString(first)) if first == number => {}
                    _ => return None,
                }
                parts.map(Self::from).for_each(pass);
            }
            _ => return None,
        }
        Some(())
    }
}

/// The number that a text begins with, and what follows its digits.
fn number_in(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    let mut digits = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(digit.into());
        digits += 1;
    }
    let (text, rest) = text.split_at_checked(digits)?;
    match digits {
        0 => None,
        // So many always fit.
        1..=19 => Some((number, rest)),
        _ => Some((str::from_utf8(text).ok()?.parse().ok()?, rest)),
    }
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
        assert_eq!(Answer::all_in(list, 42, 3), expected);
        assert_eq!(Answer::all_in(text("42 170 :0 :-1"), 42, 3), expected);
    }

    #[test]
    fn only_a_reply_with_the_number_is_an_answer() {
        assert_eq!(Answer::all_in(text("42 1"), 42, 1), Some(vec![Answer::Token(1)]));
        assert_eq!(Answer::only_in(text("42 1"), 42), Some(Answer::Token(1)));
        let others =
            ["43 1", "4 1", "42", "421 1", "42 x", "42 1 ", "42 1 1", "42 1x", "42  1", "42x1", ""];
        for other in others.map(text).into_iter().chain([
            Value::Int(42),
            Value::Nil,
            Value::Array(vec![text("43"), Value::Int(7)]),
            Value::Array(vec![Value::Int(42), Value::Int(7)]),
            Value::Array(vec![text("42")]),
            Value::Array(Vec::new()),
        ]) {
            assert_eq!(Answer::all_in(other.clone(), 42, 1), None, "{other:?}");
            assert_eq!(Answer::only_in(other.clone(), 42), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_neither_number_nor_token_stays() {
        for other in
            ["a", "", ":", ":-", ":+1", "-1", "+1", "1 ", "1x", ":1 1", "99999999999999999999"]
                .map(text)
                .into_iter()
                .chain([Value::Nil])
        {
            assert_eq!(Answer::from(other.clone()), Answer::Other(other));
        }
    }
}
