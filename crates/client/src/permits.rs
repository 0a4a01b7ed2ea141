//! Block tokens of HDFS, shown to helpers: each gets the identifier of its block's token, and a proof that whoever announces the flow
//! knows the password, which stays here. The proof is good for one flow.
//!
//! ```text
//!   password   HMAC with a block key of HDFS, of the identifier     only NameNode and DataNodes have the keys
//!   proof      HMAC-SHA256 with the password, of "stripeline block permit 1" and the flow's id (16 bytes)
//! ```

use flow::Member;
use flow::bound::Binding;
use hmac::{Hmac, Mac};
use model::FlowId;
use model::hdfs::{BlockToken, PROOF_BYTES, Permit};
use sha2::Sha256;
use std::collections::BTreeMap;

/// Before the flow's id, so that the proof is none of anything else that is made with a password of HDFS.
const PURPOSE: &[u8] = b"stripeline block permit 1";

/// Puts what each helper is shown beside the block that it reads.
pub fn show(tokens: &BTreeMap<u16, BlockToken>, binding: &mut Binding) {
    let flow = binding.header.flow;
    for (Member(member), read) in &mut binding.blocks {
        read.permit = tokens.get(member).map(|token| permit(token, flow));
    }
}

fn permit(token: &BlockToken, flow: FlowId) -> Permit {
    Permit { identifier: token.identifier.clone(), proof: proof(&token.password, flow) }
}

fn proof(password: &[u8], flow: FlowId) -> [u8; PROOF_BYTES] {
    // A key of any length is taken, so there is always one.
    let made = Hmac::<Sha256>::new_from_slice(password)
        .map(|mac| mac.chain_update(PURPOSE).chain_update(flow.to_vec()));
    made.map_or([0; PROOF_BYTES], |mac| mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TokenChecksTest` of integrations/hdfs makes it, and Python's `hmac`.
    #[test]
    fn a_proof_is_what_java_makes() {
        let hex: String = proof(b"secret", FlowId(7)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "e13dd3f632a890c608fb83f8b95e71cd05f9404ae54b562d3ae94aec23b2cd67");
    }

    #[test]
    fn a_proof_is_of_one_flow_and_one_password_and_shows_neither() {
        let token = BlockToken { identifier: vec![1, 2], password: b"secret".to_vec() };
        let (one, other) = (permit(&token, FlowId(7)), permit(&token, FlowId(8)));
        assert_eq!(one.identifier, token.identifier);
        assert!(one.proof != other.proof && one.proof != proof(b"another", FlowId(7)));
        assert_eq!(format!("{token:?} {one:?}"), "BlockToken(2 bytes) Permit(2 bytes)");
    }
}
