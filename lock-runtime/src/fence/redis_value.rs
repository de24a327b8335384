//! [`RedisValue`]: what a command under a hold answers.

/// The answer of a [`RedisCommand`](crate::guard::RedisCommand).
///
/// A script runs the command, so its answer has the types of RESP2: pairs are an array in which keys and values alternate,
/// and fractions are text. The server's scripts count in floating point: an integer beyond 2^53 is rounded.
///
/// # Examples
///
/// ```
/// use lock_runtime::fence::RedisValue;
///
/// let answer = RedisValue::Array(vec![RedisValue::Bytes(b"3".to_vec()), RedisValue::Nil]);
/// let parts = answer.as_array().unwrap_or_default();
/// assert_eq!(parts[0].as_str(), Some("3"));
/// assert_eq!(parts[0].as_integer(), Some(3));
/// assert!(parts[1].is_nil());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisValue {
    /// Nothing, as GET answers for a key that is missing.
    Nil,
    /// A number, as INCR answers.
    Integer(i64),
    /// A string, as GET answers.
    Bytes(Vec<u8>),
    /// A status, as the `OK` of SET.
    Status(String),
    /// A list, as MGET answers.
    Array(Vec<RedisValue>),
}

impl RedisValue {
    /// Returns true for [`Nil`](Self::Nil).
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Returns the number of an integer, or of a string that is one.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => self.as_str()?.parse().ok(),
        }
    }

    /// Returns the text of a string or a status, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        str::from_utf8(self.as_bytes()?).ok()
    }

    /// Returns the bytes of a string or a status.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Status(status) => Some(status.as_bytes()),
            _ => None,
        }
    }

    /// Returns the parts of a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(parts) => Some(parts),
            _ => None,
        }
    }
}
