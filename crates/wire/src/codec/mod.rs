//! The model as messages, and back: each type is converted in one place.

pub mod block;
pub mod fault;
pub mod header;
pub mod part;
pub mod plan;
mod stage;

use model::{Cause, Fault};

fn narrow(value: u32) -> Result<u16, Fault> {
    u16::try_from(value).map_err(|_| invalid("a number beyond 16 bits"))
}

fn invalid(what: &str) -> Fault {
    Fault::new(Cause::Invalid, what)
}

#[cfg(test)]
mod tests {
    use crate::{Message, proto};
    use model::Part;
    use model::note::{MemberFacts, StripeFacts, encode};
    use model::{BlockId, StripeId};

    #[test]
    fn the_note_of_a_stripe_is_the_message_to_the_byte() {
        let name = "a/name".repeat(40);
        for (length, last) in [(0, false), (32, true)] {
            let (digest, fingerprint) = (vec![7; length], vec![9; 4 * length]);
            let part = Part { name: name.clone(), version: 0, offset: 1 << 40, last };
            let member = MemberFacts {
                block: BlockId(5),
                generation: 300,
                stored_bytes: 64 << 20,
                digest: &digest,
                fingerprint: &fingerprint,
                object: last.then_some(&part),
            };
            let facts = StripeFacts { stripe: StripeId(1), code: "rs-2+1", block_bytes: 64 << 20 };
            let encoded = encode(facts, 2, [Some(member), None, Some(member)].into_iter());
            let member = proto::StripeMember {
                block: BlockId(5).to_vec(),
                generation: 300,
                stored_bytes: 64 << 20,
                digest,
                fingerprint,
                object: last.then(|| proto::ObjectPart {
                    name: name.clone(),
                    version: 0,
                    offset: 1 << 40,
                    last,
                }),
            };
            let info = proto::StripeInfo {
                stripe: StripeId(1).to_vec(),
                code: "rs-2+1".to_owned(),
                index: 2,
                block_bytes: 64 << 20,
                members: vec![member.clone(), proto::StripeMember::default(), member],
            };
            assert_eq!(encoded, info.encode_to_vec());
        }
    }
}
