//! Ranges of bytes as HTTP writes them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// `0-4095` (both ends included), `4096-` (to the end), `-500` (the last 500).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteRange {
    /// From the first to the last byte, both included; without a last one, to the end.
    From {
        /// First byte.
        first: u64,
        /// Last byte.
        last: Option<u64>,
    },
    /// So many bytes at the end.
    Suffix(u64),
}

/// A text that is no range.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no range; write 0-4095 (both ends included), 4096- or -500 (the last 500 bytes)")]
pub struct BadRange(String);

impl ByteRange {
    /// The bytes that this means in an object of `object_bytes`; what lies past its end is cut off. `None` if nothing
    /// is left.
    pub fn within(self, object_bytes: u64) -> Option<Range<u64>> {
        let range = match self {
            ByteRange::From { first, last } => {
                first..last.map_or(object_bytes, |last| last.saturating_add(1).min(object_bytes))
            }
            ByteRange::Suffix(count) => object_bytes.saturating_sub(count)..object_bytes,
        };
        (range.start < range.end).then_some(range)
    }
}

impl FromStr for ByteRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(text.to_owned());
        let number = |digits: &str| {
            let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| all_digits).ok_or_else(bad)
        };
        let range = match text.split_once('-').ok_or_else(bad)? {
            ("", count) => ByteRange::Suffix(number(count)?),
            (first, "") => ByteRange::From { first: number(first)?, last: None },
            (first, last) => ByteRange::From { first: number(first)?, last: Some(number(last)?) },
        };
        match range {
            ByteRange::From { first, last: Some(last) } if last < first => Err(bad()),
            range => Ok(range),
        }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ByteRange::From { first, last: Some(last) } => write!(f, "{first}-{last}"),
            ByteRange::From { first, last: None } => write!(f, "{first}-"),
            ByteRange::Suffix(count) => write!(f, "-{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_mean_what_http_means() {
        for (text, object_bytes, bytes) in [
            ("0-4095", 10_000, Some(0..4096)),
            ("0-0", 1, Some(0..1)),
            ("9000-20000", 10_000, Some(9000..10_000)),
            ("4096-", 10_000, Some(4096..10_000)),
            ("-500", 10_000, Some(9500..10_000)),
            ("-500", 100, Some(0..100)),
            ("10000-", 10_000, None),
            ("-0", 10_000, None),
            ("0-", 0, None),
            ("0-18446744073709551615", 5, Some(0..5)),
        ] {
            let range: ByteRange = text.parse().unwrap();
            assert_eq!(range.within(object_bytes), bytes, "{text} of {object_bytes}");
            assert_eq!(range.to_string(), text);
        }
        for bad in ["", "-", "5", "9-3", "a-b", "+1-2", "1-2-3", "1 - 2", "0-18446744073709551616"] {
            assert!(bad.parse::<ByteRange>().is_err(), "{bad}");
        }
    }
}
