//! Sizes and rates as people write and read them.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes: `64MiB`, `1.5GB`, `32K`, `100`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

/// Bytes per second, 0 for no limit: `400mbit`, `50MB/s`, `none`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

/// How long ago: `90s`, `15m`, `12h`, `30d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Age(pub Duration);

/// A percentage above 0 and up to 100: `10%`, `0.5`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Percent(pub f64);

/// A text that is no size, rate, age or percentage.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAmount(String);

/// Units of bytes. A bare K, M, G or T is binary, as in coreutils.
const BYTE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("k", 1 << 10),
    ("kb", 1000),
    ("mib", 1 << 20),
    ("m", 1 << 20),
    ("mb", 1_000_000),
    ("gib", 1 << 30),
    ("g", 1 << 30),
    ("gb", 1_000_000_000),
    ("tib", 1 << 40),
    ("t", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// Units of bits per second, which networks count in thousands.
const BIT_UNITS: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1000),
    ("kbps", 1000),
    ("mbit", 1_000_000),
    ("mbps", 1_000_000),
    ("gbit", 1_000_000_000),
    ("gbps", 1_000_000_000),
];

/// Units of seconds.
const TIME_UNITS: &[(&str, u64)] = &[("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

impl FromStr for Size {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let (number, unit) = split(text);
        scaled(number, lookup(BYTE_UNITS, unit))
            .map(Size)
            .ok_or_else(|| BadAmount(format!("'{text}' is no size; write it like 64MiB, 1.5GB or 4096")))
    }
}

impl FromStr for Rate {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        if matches!(text, "none" | "unlimited" | "0") {
            return Ok(Rate(0));
        }
        let (number, unit) = split(text);
        let per_second = unit.strip_suffix("/s");
        let bits = scaled(number, lookup(BIT_UNITS, per_second.unwrap_or(unit))).map(|bits| bits / 8);
        // A bare number could mean bits or bytes, and "50MB" a size: neither is guessed.
        let bytes = per_second.filter(|u| !u.is_empty()).and_then(|u| scaled(number, lookup(BYTE_UNITS, u)));
        bits.or(bytes).filter(|&rate| rate > 0).map(Rate).ok_or_else(|| {
            BadAmount(format!("'{text}' is no rate; write it like 400mbit, 50MB/s or none for no limit"))
        })
    }
}

impl Rate {
    /// The rate as an argument that reads back as exactly the same.
    pub fn argument(self) -> String {
        if self.0 == 0 { "none".to_owned() } else { format!("{}B/s", self.0) }
    }
}

macro_rules! from_text {
    ($($amount:ident)*) => {$(
        impl TryFrom<String> for $amount {
            type Error = BadAmount;

            fn try_from(text: String) -> Result<Self, BadAmount> {
                text.parse()
            }
        }
    )*};
}

impl FromStr for Age {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let (number, unit) = split(text);
        let seconds = scaled(number, lookup(TIME_UNITS, unit));
        seconds
            .map(|seconds| Age(Duration::from_secs(seconds)))
            .ok_or_else(|| BadAmount(format!("'{text}' is no age; write it like 90s, 15m, 12h or 30d")))
    }
}

/// In the largest unit of which it is a whole number, without the rest of a second.
impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let is_whole = |&&(_, scale): &&(&str, u64)| seconds > 0 && seconds.is_multiple_of(scale);
        let (unit, scale) = TIME_UNITS.iter().filter(is_whole).max_by_key(|unit| unit.1).unwrap_or(&("s", 1));
        write!(f, "{}{unit}", seconds / scale)
    }
}

impl FromStr for Percent {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>().ok();
        let percent = number.filter(|percent| *percent > 0.0 && *percent <= 100.0);
        percent.map(Percent).ok_or_else(|| {
            BadAmount(format!("'{text}' is no percentage above 0 and up to 100; write it like 10% or 0.5"))
        })
    }
}

from_text!(Size Rate Percent);

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn lookup(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|&(_, scale)| scale)
}

/// `number` × `scale`, if that is a whole number of 64 bits or nearly so.
fn scaled(number: &str, scale: Option<u64>) -> Option<u64> {
    let scale = scale?;
    if number.bytes().all(|b| b.is_ascii_digit()) {
        return number.parse::<u64>().ok()?.checked_mul(scale);
    }
    let value = number.parse::<f64>().ok()? * scale as f64;
    (value < u64::MAX as f64).then_some(value.round() as u64)
}

/// Binary units; whole numbers where they are exact: `64 MiB`, `1.3 GiB`, `17 B`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let step = (0..UNITS.len()).rev().find(|&step| self.0 >> (10 * step) > 0).unwrap_or(0);
        let unit = 1u64 << (10 * step);
        let text = if self.0.is_multiple_of(unit) {
            format!("{} {}", self.0 / unit, UNITS[step])
        } else {
            format!("{:.1} {}", self.0 as f64 / unit as f64, UNITS[step])
        };
        f.pad(&text)
    }
}

/// `400 Mbit/s`, as networks are sold; `unlimited` for 0.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("unlimited");
        }
        let bits = self.0 as f64 * 8.0;
        let (value, unit) = match bits {
            b if b >= 1e9 => (b / 1e9, "Gbit/s"),
            b if b >= 1e6 => (b / 1e6, "Mbit/s"),
            b => (b / 1e3, "kbit/s"),
        };
        let digits = if value.fract() < 0.005 || value.fract() > 0.995 { 0 } else { 1 };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// A duration to three places: `1.352 s`, `12.4 ms`.
pub fn seconds(duration: Duration) -> String {
    let s = duration.as_secs_f64();
    if s >= 1.0 { format!("{s:.3} s") } else { format!("{:.1} ms", s * 1e3) }
}

/// A duration that nobody knows exactly: `40 s`, `12 min`, `7 h`.
pub fn about(duration: Duration) -> String {
    match duration.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h", s.div_ceil(3_600)),
    }
}

/// A number of things: `1 block`, `3 blocks`.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("100", 100),
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("64M", 64 << 20),
            ("64 MB", 64_000_000),
            ("1.5KiB", 1536),
            ("32K", 32 << 10),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.2.3", "12 apples", "99999999999TiB", "64mbit", "NaN", "1e9"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_need_a_unit_and_never_confuse_bits_with_bytes() {
        for (text, bytes) in [
            ("none", 0),
            ("400mbit", 50_000_000),
            ("400Mbit/s", 50_000_000),
            ("1gbit", 125_000_000),
            ("1Gbps", 125_000_000),
            ("50MB/s", 50_000_000),
            ("50MiB/s", 50 << 20),
        ] {
            assert_eq!(text.parse(), Ok(Rate(bytes)), "{text}");
        }
        for bad in ["", "400", "50MB", "fast", "mbit", "-1mbit", "7bit", "/s"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_percentage_is_above_none_and_up_to_all() {
        for (text, percent) in [("10%", 10.0), ("0.5", 0.5), ("100 %", 100.0)] {
            assert_eq!(text.parse(), Ok(Percent(percent)), "{text}");
        }
        for bad in ["", "%", "0", "-1%", "101%", "ten", "NaN", "inf"] {
            assert!(bad.parse::<Percent>().is_err(), "{bad}");
        }
    }

    #[test]
    fn amounts_are_shown_short() {
        assert_eq!(Size(64 << 20).to_string(), "64 MiB");
        assert_eq!(Size(1_400_000_000).to_string(), "1.3 GiB");
        assert_eq!(Size(17).to_string(), "17 B");
        assert_eq!(Size(0).to_string(), "0 B");
        let long = [0, 119, 121, 7_199, 7_201].map(|seconds| about(Duration::from_secs(seconds)));
        assert_eq!(long, ["0 s", "119 s", "3 min", "120 min", "3 h"]);
        assert_eq!(Rate(50_000_000).to_string(), "400 Mbit/s");
        assert_eq!(Rate(0).to_string(), "unlimited");
        for rate in [Rate(0), Rate(1), Rate(50_000_001)] {
            assert_eq!(rate.argument().parse(), Ok(rate));
        }
        assert_eq!(seconds(Duration::from_micros(1_352_400)), "1.352 s");
    }

    #[test]
    fn ages_are_read_as_they_are_written() {
        for text in ["0s", "59s", "90s", "15m", "36h", "7d"] {
            let age: Age = text.parse().unwrap();
            assert_eq!(age.to_string(), text);
        }
        assert_eq!("48h".parse::<Age>().unwrap().to_string(), "2d");
        assert!("7 weeks".parse::<Age>().is_err());
    }
}
