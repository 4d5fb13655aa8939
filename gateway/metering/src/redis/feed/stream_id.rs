//! Places in a stream, and what a stream's commands answer.

use std::fmt;

use redis::Value;

/// `1796083200000-3`: the server's ms, and a number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamId {
    pub(super) ms: u64,
    pub(super) seq: u64,
}

/// One entry, its payload as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: StreamId,
    /// `None` where the entry has none: not one of ours.
    pub(super) number: Option<u64>,
    pub(super) snapshot: Option<Vec<u8>>,
}

impl StreamId {
    fn parse(text: &[u8]) -> Option<Self> {
        let (ms, seq) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, seq: seq.parse().ok()? })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.seq)
    }
}

/// The entries of one stream, from `XREAD` in RESP3 (a map) or RESP2 (pairs). `None`: it is no such answer.
pub(super) fn read_answer(answer: Value) -> Option<Vec<Entry>> {
    let of_stream = match answer {
        Value::Nil => return Some(Vec::new()),
        Value::Map(streams) => streams.into_iter().next()?.1,
        Value::Array(streams) => match streams.into_iter().next()? {
            Value::Array(pair) => pair.into_iter().nth(1)?,
            _ => return None,
        },
        _ => return None,
    };
    entries(of_stream)
}

/// Entries, as `XREVRANGE` and `XRANGE` answer.
pub(super) fn entries(answer: Value) -> Option<Vec<Entry>> {
    let Value::Array(entries) = answer else { return None };
    entries.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Option<Entry> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let id = StreamId::parse(&bytes(parts.next()?)?)?;
    let mut entry = Entry { id, number: None, snapshot: None };
    // An entry that was deleted has no fields.
    let Some(Value::Array(fields)) = parts.next() else { return Some(entry) };
    let mut fields = fields.into_iter();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        match bytes(name).as_deref() {
            Some(b"n") => entry.number = whole(&value),
            Some(b"s") => entry.snapshot = bytes(value),
            _ => {}
        }
    }
    Some(entry)
}

pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// A whole number, as one or as text. `None` also for what is not there.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// What `TIME` answers, Unix ms.
pub(super) fn time_ms(value: &Value) -> Option<i64> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.iter().map(whole);
    let (seconds, micros) = (parts.next()??, parts.next()??);
    i64::try_from(seconds.checked_mul(1_000)?.checked_add(micros / 1_000)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn an_entry(id: &str, fields: &[&str]) -> Value {
        Value::Array(vec![text(id), Value::Array(fields.iter().copied().map(text).collect())])
    }

    #[test]
    fn answers_of_both_protocols_read_alike() {
        let entries = Value::Array(vec![an_entry("17-3", &["n", "5", "s", "{}"]), an_entry("18-0", &["x", "y"])]);
        let expected = vec![
            Entry { id: StreamId { ms: 17, seq: 3 }, number: Some(5), snapshot: Some(b"{}".to_vec()) },
            Entry { id: StreamId { ms: 18, seq: 0 }, number: None, snapshot: None },
        ];
        let map = Value::Map(vec![(text("stream"), entries.clone())]);
        let pairs = Value::Array(vec![Value::Array(vec![text("stream"), entries])]);
        assert_eq!(read_answer(map), Some(expected.clone()));
        assert_eq!(read_answer(pairs), Some(expected));
        assert_eq!(read_answer(Value::Nil), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_such_answer_is_none() {
        let odd = [
            Value::Okay,
            Value::Array(vec![]),
            Value::Map(vec![]),
            Value::Map(vec![(text("stream"), Value::Nil)]),
            Value::Map(vec![(text("stream"), Value::Array(vec![an_entry("17", &[])]))]),
            Value::Map(vec![(text("stream"), Value::Array(vec![an_entry("-1-1", &[])]))]),
        ];
        for answer in odd {
            assert_eq!(read_answer(answer.clone()), None, "{answer:?}");
        }
        let deleted = Value::Array(vec![Value::Array(vec![text("1-1"), Value::Nil])]);
        assert_eq!(entries(deleted).unwrap()[0].number, None);
    }

    #[test]
    fn times_and_ids() {
        assert_eq!(time_ms(&Value::Array(vec![text("1796083200"), text("123999")])), Some(1_796_083_200_123));
        assert_eq!(time_ms(&Value::Array(vec![text("1796083200")])), None);
        assert_eq!(time_ms(&Value::Nil), None);
        assert!(StreamId { ms: 9, seq: 9 } < StreamId { ms: 10, seq: 0 });
        assert_eq!(StreamId { ms: 10, seq: 2 }.to_string(), "10-2");
    }
}
