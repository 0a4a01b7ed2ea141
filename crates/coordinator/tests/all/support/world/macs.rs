//! Secrets and MACs with which fake nodes prove that they live and that they wrote copies.

use super::{Stored, fingerprint, store};
use model::{BlockId, FlowId, Incarnation, Sums};
use wire::mac::{Mac, Secret, WrittenCopy};

/// Returns the secret of a node's start.
pub(super) fn secret(node: u32, word: u64) -> Secret {
    let drawn = blake3::hash(format!("{node} {word}").as_bytes());
    Secret::from_slice(drawn.as_bytes()).expect("as long as a digest")
}

/// Returns the MAC that proves that this start of a node wrote the copy.
pub(super) fn mac(flow: &[u8], stored: &Stored, (node, word): (u32, u64)) -> Mac {
    let digest = Some(*blake3::hash(&stored.bytes).as_bytes());
    secret(node, word).of_copy(&WrittenCopy {
        flow: FlowId::from_slice(flow).expect("an id"),
        block: BlockId::from_slice(&stored.write.block).expect("an id"),
        generation: stored.generation,
        stored_bytes: stored.bytes.len() as u64,
        sums: &Sums { digest, fingerprint: Some(fingerprint(&stored.bytes)) },
        store: store(node),
        incarnation: Incarnation(word),
    })
}
