//! Message authentication codes (MACs) with which one start of a node's store proves that it answers and that it wrote a copy.
//!
//! ```text
//!   node                                              coordinator
//!   draws a secret at its start ────── registers ───▶ keeps it, in memory
//!   writes a copy: MAC(secret, what it wrote)
//!        └──▶ driver ──▶ client ────── commit ──────▶ computes the MAC anew and compares
//!   answers: MAC(secret, challenge, itself) ◀───────── calls with a challenge
//! ```
//!
//! The secret travels once, from the node to its coordinator. Nobody in between can compute a MAC. The MAC of one copy proves nothing about
//! another: it covers flow, block, generation, length, sums, store and the word of the start.

use gf::FINGERPRINT_BYTES;
use model::{BlockId, FlowId, Incarnation, NodeId, StoreId, Sums};
use std::fmt;

/// Length of a secret.
pub const SECRET_BYTES: usize = 32;

/// Length of a MAC: a guess is right once in 2^128.
pub const MAC_BYTES: usize = 16;

/// Length of a challenge: long enough that none is drawn twice.
pub const CHALLENGE_BYTES: usize = 16;

/// Prefix of each kind of MAC, so that none passes for another.
const OF_COPY: &[u8; 24] = b"stripeline copy written\x01";
const OF_START: &[u8; 24] = b"stripeline start lives\0\x01";

/// Key that a node's process draws at its start and tells only its coordinator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

/// Proof that its author knows the secret of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mac(pub [u8; MAC_BYTES]);

/// Random bytes that the answer's MAC covers, so that an earlier answer cannot be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Challenge(pub [u8; CHALLENGE_BYTES]);

/// Identity of a node: one start of one store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whose {
    /// The node.
    pub node: NodeId,
    /// Its store.
    pub store: StoreId,
    /// The word of the start.
    pub incarnation: Incarnation,
}

/// A copy that a store has made durable.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCopy<'a> {
    /// The flow that wrote it.
    pub flow: FlowId,
    /// Its block.
    pub block: BlockId,
    /// The copy's generation of the block.
    pub generation: u64,
    /// Length of the block.
    pub stored_bytes: u64,
    /// Sums that the node computed from its bytes.
    pub sums: &'a Sums,
    /// The store that holds it.
    pub store: StoreId,
    /// The word of the start that wrote it.
    pub incarnation: Incarnation,
}

impl Secret {
    /// Draws a secret.
    pub fn draw() -> Secret {
        Secret(rand::random())
    }

    /// Converts a message's field; returns `None` if its length is wrong.
    pub fn from_slice(bytes: &[u8]) -> Option<Secret> {
        bytes.try_into().ok().map(Secret)
    }

    /// Converts the secret to a message's field.
    pub fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Returns the MAC that proves that this start wrote the copy.
    pub fn of_copy(&self, copy: &WrittenCopy<'_>) -> Mac {
        let digest = copy.sums.digest.unwrap_or_default();
        let fingerprint = copy.sums.fingerprint.map_or([0; FINGERPRINT_BYTES], |f| *f.as_bytes());
        // Every part has a fixed length, so two different copies never give the same bytes.
        self.keyed(&[
            OF_COPY,
            &copy.flow.to_bytes(),
            &copy.block.to_bytes(),
            &copy.generation.to_le_bytes(),
            &copy.stored_bytes.to_le_bytes(),
            &[u8::from(copy.sums.digest.is_some()), u8::from(copy.sums.fingerprint.is_some())],
            &digest,
            &fingerprint,
            &copy.store.to_bytes(),
            &copy.incarnation.0.to_le_bytes(),
        ])
    }

    /// Returns the MAC that answers the challenge.
    pub fn of_start(&self, challenge: &Challenge, whose: &Whose) -> Mac {
        self.keyed(&[
            OF_START,
            &challenge.0,
            &whose.node.0.to_le_bytes(),
            &whose.store.to_bytes(),
            &whose.incarnation.0.to_le_bytes(),
        ])
    }

    fn keyed(&self, parts: &[&[u8]]) -> Mac {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(part);
        }
        let mut mac = [0; MAC_BYTES];
        hasher.finalize_xof().fill(&mut mac);
        Mac(mac)
    }
}

impl Mac {
    /// Converts a message's field; returns `None` if its length is wrong.
    pub fn from_slice(bytes: &[u8]) -> Option<Mac> {
        bytes.try_into().ok().map(Mac)
    }

    /// Converts the MAC to a message's field.
    pub fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Compares the MACs in constant time.
    pub fn is(&self, other: &Mac) -> bool {
        self.0.iter().zip(other.0).fold(0, |differing, (one, other)| differing | (one ^ other)) == 0
    }
}

impl Challenge {
    /// Draws a challenge.
    pub fn draw() -> Challenge {
        Challenge(rand::random())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gf::Fingerprint;

    const SECRET: Secret = Secret([7; SECRET_BYTES]);

    fn sums() -> Sums {
        let fingerprint = Fingerprint::from_bytes([3; FINGERPRINT_BYTES]);
        Sums { digest: Some([9; 32]), fingerprint: Some(fingerprint) }
    }

    fn copy(sums: &Sums) -> WrittenCopy<'_> {
        WrittenCopy {
            flow: FlowId(1),
            block: BlockId(2),
            generation: 1,
            stored_bytes: 4,
            sums,
            store: StoreId(5),
            incarnation: Incarnation(6),
        }
    }

    #[test]
    fn a_mac_is_of_one_copy_only() {
        let sums = sums();
        let mac = SECRET.of_copy(&copy(&sums));
        assert!(mac.is(&SECRET.of_copy(&copy(&sums))));
        let (no_digest, none) = (Sums { digest: None, ..sums }, Sums::default());
        let others = [
            WrittenCopy { flow: FlowId(7), ..copy(&sums) },
            WrittenCopy { block: BlockId(7), ..copy(&sums) },
            WrittenCopy { generation: 2, ..copy(&sums) },
            WrittenCopy { stored_bytes: 5, ..copy(&sums) },
            WrittenCopy { store: StoreId(7), ..copy(&sums) },
            WrittenCopy { incarnation: Incarnation(7), ..copy(&sums) },
            copy(&no_digest),
            copy(&none),
        ];
        for other in others {
            assert!(!mac.is(&SECRET.of_copy(&other)), "{other:?}");
        }
        assert!(!mac.is(&Secret([8; SECRET_BYTES]).of_copy(&copy(&sums))));
    }

    #[test]
    fn an_answer_is_to_one_challenge_only() {
        let whose = Whose { node: NodeId(1), store: StoreId(2), incarnation: Incarnation(3) };
        let challenge = Challenge([1; CHALLENGE_BYTES]);
        let mac = SECRET.of_start(&challenge, &whose);
        assert!(!mac.is(&SECRET.of_start(&Challenge([2; CHALLENGE_BYTES]), &whose)));
        let others = [
            Whose { node: NodeId(2), ..whose },
            Whose { store: StoreId(3), ..whose },
            Whose { incarnation: Incarnation(4), ..whose },
        ];
        for other in others {
            assert!(!mac.is(&SECRET.of_start(&challenge, &other)), "{other:?}");
        }
    }

    #[test]
    fn macs_are_stable() {
        let hex = |mac: Mac| mac.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let whose = Whose { node: NodeId(1), store: StoreId(2), incarnation: Incarnation(3) };
        let of_start = SECRET.of_start(&Challenge([1; CHALLENGE_BYTES]), &whose);
        assert_eq!(hex(SECRET.of_copy(&copy(&sums()))), "63b44de717f259623a34a148dd2ebf11");
        assert_eq!(hex(of_start), "50617d3280028d5bb61b34842747e61b");
    }

    #[test]
    fn a_secret_is_shown_to_nobody() {
        assert_eq!(format!("{SECRET:?}"), "Secret(…)");
    }
}
