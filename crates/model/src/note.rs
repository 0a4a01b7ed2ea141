//! The note of a stripe: what a sidecar says of its block's stripe, written out straight from where it is kept. It is most of
//! a plan's bytes, and only the node that writes the block reads it: so it travels encoded, and nobody makes a message of it
//! on the way. Its bytes are those of the message `StripeInfo` of the control protocol, which a test of `wire` holds.

use crate::block::Part;
use crate::id::{BlockId, StripeId};

/// How Protocol Buffers mark a number …
const VARINT: u64 = 0;

/// … and bytes, or a message, whose length comes first.
const LENGTH_DELIMITED: u64 = 2;

/// A stripe, as its own row has it.
#[derive(Clone, Copy, Debug)]
pub struct StripeFacts<'a> {
    /// Identity.
    pub stripe: StripeId,
    /// The code's name.
    pub code: &'a str,
    /// Logical length of its blocks.
    pub block_bytes: u64,
}

/// A member of a stripe.
#[derive(Clone, Copy, Debug)]
pub struct MemberFacts<'a> {
    /// Identity.
    pub block: BlockId,
    /// The newest.
    pub generation: u64,
    /// Without the zeros at its end.
    pub stored_bytes: u64,
    /// BLAKE3; empty if it is not known.
    pub digest: &'a [u8],
    /// Empty if it is not known.
    pub fingerprint: &'a [u8],
    /// What of an object it is.
    pub object: Option<&'a Part>,
}

/// The note of member `index`. Absent members, which are all zero, are `None`.
pub fn encode<'a>(
    facts: StripeFacts<'_>,
    index: u16,
    members: impl ExactSizeIterator<Item = Option<MemberFacts<'a>>>,
) -> Vec<u8> {
    // As long as members that are parts of objects with names of usual length.
    let mut out = Vec::with_capacity(64 + members.len() * 256);
    bytes(&mut out, 1, &facts.stripe.to_bytes());
    bytes(&mut out, 2, facts.code.as_bytes());
    number(&mut out, 3, index.into());
    number(&mut out, 4, facts.block_bytes);
    members.for_each(|member| message(&mut out, 5, &member));
    out
}

/// The fields of a message.
trait Fields {
    fn put_to<O: Out>(&self, out: &mut O);
}

impl Fields for Option<MemberFacts<'_>> {
    fn put_to<O: Out>(&self, out: &mut O) {
        let Some(facts) = self else { return };
        bytes(out, 1, &facts.block.to_bytes());
        number(out, 2, facts.generation);
        number(out, 3, facts.stored_bytes);
        bytes(out, 4, facts.digest);
        bytes(out, 5, facts.fingerprint);
        if let Some(object) = &facts.object {
            message(out, 6, *object);
        }
    }
}

impl Fields for Part {
    fn put_to<O: Out>(&self, out: &mut O) {
        bytes(out, 1, self.name.as_bytes());
        number(out, 2, self.version);
        number(out, 3, self.offset);
        number(out, 4, self.last.into());
    }
}

/// Where a message goes, or a count of its bytes.
trait Out {
    fn put(&mut self, bytes: &[u8]);
}

impl Out for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Out for usize {
    fn put(&mut self, bytes: &[u8]) {
        *self += bytes.len();
    }
}

/// Fields that are zero or empty are left out, as Protocol Buffers want it.
fn number<O: Out>(out: &mut O, tag: u32, value: u64) {
    if value > 0 {
        key(out, tag, VARINT);
        varint(out, value);
    }
}

fn bytes<O: Out>(out: &mut O, tag: u32, value: &[u8]) {
    if !value.is_empty() {
        key(out, tag, LENGTH_DELIMITED);
        varint(out, value.len() as u64);
        out.put(value);
    }
}

/// A message within one: its length comes first.
fn message<O: Out>(out: &mut O, tag: u32, fields: &impl Fields) {
    let mut length = 0_usize;
    fields.put_to(&mut length);
    key(out, tag, LENGTH_DELIMITED);
    varint(out, length as u64);
    fields.put_to(out);
}

fn key<O: Out>(out: &mut O, tag: u32, kind: u64) {
    varint(out, u64::from(tag << 3) | kind);
}

/// Seven bits to a byte, the lowest first.
fn varint<O: Out>(out: &mut O, mut value: u64) {
    let mut digits = [0; 10];
    let mut length = 0;
    while value >= 0x80 {
        digits[length] = value as u8 | 0x80;
        length += 1;
        value >>= 7;
    }
    digits[length] = value as u8;
    out.put(&digits[..=length]);
}
