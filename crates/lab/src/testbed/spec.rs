//! What a testbed should look like.

use crate::error::{Result, bad};
use serde::{Deserialize, Serialize};
use std::fmt;

/// With names of namespaces and addresses of one byte each, and a process or two per host, enough.
pub const MAX_HOSTS: usize = 200;

/// Below, a token bucket cannot hold one packet of the size that the kernel hands it.
const MIN_MBIT: f64 = 1.0;

/// The name is part of every namespace's, and those of other testbeds must not begin with it.
const MAX_NAME_BYTES: usize = 12;

/// The limit of a link, as networks are sold: bits on the wire per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkRate {
    /// Bits per second; 0 is no limit.
    pub bits_per_s: u64,
}

/// A testbed: hosts that all reach each other, each with a limited port.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Tells testbeds on one machine apart: letters and digits, at most 12.
    pub name: String,
    /// How many hosts; they are numbered from 0.
    pub hosts: usize,
    /// Limit of each host's port, in each direction.
    pub rate: LinkRate,
    /// Racks with links of their own between them; `None`: one switch for all.
    pub racks: Option<Racks>,
    /// Limits of ordered pairs, Mbit/s, row from, column to: `hosts` × `hosts`. 0 (the diagonal, say) is no limit beyond the ports'.
    pub matrix: Option<Vec<Vec<f64>>>,
}

/// Hosts are dealt out to racks in turn: host i is in rack i mod `count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Racks {
    /// How many.
    pub count: usize,
    /// Limit of the link between a rack and the core, in each direction.
    pub core_rate: LinkRate,
}

impl LinkRate {
    /// No limit.
    pub const UNLIMITED: LinkRate = LinkRate { bits_per_s: 0 };

    /// So many millions of bits per second.
    pub fn mbit(mbit: f64) -> LinkRate {
        LinkRate { bits_per_s: (mbit * 1e6).round() as u64 }
    }

    /// Whether there is a limit at all.
    pub fn is_limited(self) -> bool {
        self.bits_per_s > 0
    }

    /// The lower of two limits.
    pub fn narrower(self, other: LinkRate) -> LinkRate {
        match (self.is_limited(), other.is_limited()) {
            (true, true) => self.min(other),
            (true, false) => self,
            _ => other,
        }
    }

    /// Payload of TCP that fits, in bytes per second: 1448 bytes of each 1514 that a token bucket counts (1500 of IP and
    /// the Ethernet header; of IP, 20 are its header, 20 TCP's and 12 its timestamps). No limit has no payload.
    pub fn payload_bytes_per_s(self) -> Option<f64> {
        self.is_limited().then(|| self.bits_per_s as f64 / 8.0 * 1448.0 / 1514.0)
    }
}

/// `1 Gbit/s`, `400 Mbit/s`, `unlimited`.
impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_s {
            0 => f.pad("unlimited"),
            bits if bits >= 1_000_000_000 => f.pad(&format!("{} Gbit/s", bits as f64 / 1e9)),
            bits => f.pad(&format!("{} Mbit/s", bits as f64 / 1e6)),
        }
    }
}

/// One line for messages.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hosts at {}", self.hosts, self.rate)?;
        if let Some(racks) = self.racks {
            write!(f, " in {} racks, core links at {}", racks.count, racks.core_rate)?;
        }
        if self.matrix.is_some() {
            f.write_str(", pairs limited one by one")?;
        }
        Ok(())
    }
}

impl Spec {
    /// Equal hosts on one switch.
    pub fn flat(name: &str, hosts: usize, rate: LinkRate) -> Spec {
        Spec { name: name.to_owned(), hosts, rate, racks: None, matrix: None }
    }

    /// The rack of a host, from 0.
    pub fn rack_of(&self, host: usize) -> usize {
        self.racks.map_or(0, |racks| host % racks.count.max(1))
    }

    /// Reads `{"bandwidth": [[…], …]}`, Mbit/s, row from, column to.
    ///
    /// # Errors
    /// [`crate::error::LabError::BadSpec`] with what is wrong, and where.
    pub fn parse_matrix(text: &str) -> Result<Vec<Vec<f64>>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Matrix {
            bandwidth: Vec<Vec<f64>>,
        }
        let matrix: Matrix = serde_json::from_str(text)
            .map_err(|e| bad(format!("the matrix must be {{\"bandwidth\": [[Mbit/s, …], …]}}: {e}")))?;
        Ok(matrix.bandwidth)
    }

    /// Whether such a testbed can be made.
    ///
    /// # Errors
    /// [`crate::error::LabError::BadSpec`].
    pub fn check(&self) -> Result<()> {
        let bad = |why: String| Err(bad(why));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES || !self.name.chars().all(plain) {
            return bad(format!(
                "'{}' is no name for a testbed: small letters and digits, at most {MAX_NAME_BYTES}",
                self.name
            ));
        }
        if !(2..=MAX_HOSTS).contains(&self.hosts) {
            return bad(format!("a testbed has 2 to {MAX_HOSTS} hosts, not {}", self.hosts));
        }
        check_rate(self.rate)?;
        if let Some(racks) = self.racks {
            if !(1..=self.hosts).contains(&racks.count) {
                return bad(format!("{} hosts cannot be dealt out to {} racks", self.hosts, racks.count));
            }
            check_rate(racks.core_rate)?;
        }
        let Some(matrix) = &self.matrix else { return Ok(()) };
        if matrix.len() != self.hosts {
            return bad(format!("the matrix has {} rows for {} hosts", matrix.len(), self.hosts));
        }
        for (from, row) in matrix.iter().enumerate() {
            if row.len() != self.hosts {
                return bad(format!(
                    "row {from} of the matrix has {} columns for {} hosts",
                    row.len(),
                    self.hosts
                ));
            }
            if let Some(to) = row.iter().position(|&mbit| !(mbit == 0.0 || (MIN_MBIT..1e6).contains(&mbit))) {
                return bad(format!(
                    "the matrix says {} Mbit/s from {from} to {to}: 1 to 999999, or 0 for no limit",
                    row[to]
                ));
            }
        }
        Ok(())
    }
}

/// Whether a token bucket can be set to that.
pub fn check_rate(rate: LinkRate) -> Result<()> {
    if rate.is_limited() && rate < LinkRate::mbit(MIN_MBIT) {
        return Err(bad(format!("{rate} is too little for a link: from 1 Mbit/s, or no limit")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_read_and_its_mistakes_are_placed() {
        let matrix = Spec::parse_matrix(r#"{"bandwidth": [[0, 100.5], [50, 0]]}"#).unwrap();
        let spec = Spec { matrix: Some(matrix), ..Spec::flat("m", 2, LinkRate::UNLIMITED) };
        spec.check().unwrap();
        let said = |matrix: Vec<Vec<f64>>| {
            Spec { matrix: Some(matrix), ..spec.clone() }.check().unwrap_err().to_string()
        };
        assert!(said(vec![vec![0.0, 1.0]]).contains("1 rows for 2 hosts"));
        assert!(said(vec![vec![0.0, 1.0], vec![0.0]]).contains("row 1"));
        assert!(said(vec![vec![0.0, -1.0], vec![0.0; 2]]).contains("from 0 to 1"));
        assert!(said(vec![vec![0.0, f64::NAN], vec![0.0; 2]]).contains("from 0 to 1"));
        for text in ["", "[[1]]", r#"{"bandwidth": 3}"#, r#"{"bandwith": [[1]]}"#] {
            assert!(Spec::parse_matrix(text).unwrap_err().to_string().contains("bandwidth"), "{text}");
        }
    }

    #[test]
    fn names_cannot_reach_into_other_testbeds() {
        for name in ["", "a-b", "../x", "A", "sl lab", "thirteenchars"] {
            assert!(Spec::flat(name, 3, LinkRate::UNLIMITED).check().is_err(), "{name}");
        }
        Spec::flat("lab2", 3, LinkRate::mbit(1000.0)).check().unwrap();
        assert!(Spec::flat("lab", 1, LinkRate::UNLIMITED).check().is_err());
        assert!(Spec::flat("lab", 3, LinkRate { bits_per_s: 8 }).check().is_err());
        let racks = Some(Racks { count: 4, core_rate: LinkRate::UNLIMITED });
        assert!(Spec { racks, ..Spec::flat("lab", 3, LinkRate::UNLIMITED) }.check().is_err());
    }

    #[test]
    fn a_gigabit_carries_956_megabits_of_payload() {
        let payload = LinkRate::mbit(1000.0).payload_bytes_per_s().unwrap() * 8.0 / 1e6;
        assert!((955.0..957.0).contains(&payload), "{payload}");
        assert_eq!(LinkRate::mbit(1000.0).to_string(), "1 Gbit/s");
        assert_eq!(LinkRate::mbit(0.0).narrower(LinkRate::mbit(5.0)), LinkRate::mbit(5.0));
    }
}
