//! The note of a stripe: what a sidecar says of its block's stripe, enough to restore the stripe's row from any parity. It
//! has one encoding, which plans carry and sidecars keep; it is most of a plan's bytes, so it is written out straight from
//! where its facts are kept, and only who rebuilds a catalog reads it.
//!
//! ```text
//! 0   version (1; 2 if a member is virtual) | stripe's id (16) | index of the block (2) | logical length of a block (8) | code's name (string)
//!     members (2), each: 0 if it is all zero, else
//!         1, or 2 if it is virtual | block (16) | generation (8) | stored length (8)
//!         digest (0, or 1 and 32 bytes) | fingerprint (0, or 1 and 128 bytes)
//!         part (0, or 1 | object's name (string) | version (8) | offset (8) | 1 if the object ends with it, else 0)
//! ```
//!
//! Ids are big-endian, numbers little-endian; a string is its length (2) and its bytes.

use crate::block::{Contents, MemberState, Part, Sums};
use crate::id::{BlockId, StripeId};
use gf::Fingerprint;

/// Of a stripe without virtual members; another one than these is not read.
pub const VERSION: u8 = 1;

/// Of one with virtual members, which programs of before do not know.
pub const WITH_VIRTUAL: u8 = 2;

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

/// A member of a stripe, where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct MemberFacts<'a> {
    /// Identity.
    pub block: BlockId,
    /// The newest.
    pub generation: u64,
    /// Without the zeros at its end.
    pub stored_bytes: u64,
    /// As far as they are known.
    pub sums: Sums,
    /// What of an object it is.
    pub part: Option<&'a Part>,
}

/// A note, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripeNote {
    /// The stripe.
    pub stripe: StripeId,
    /// The code's name.
    pub code: String,
    /// Which member the block is whose note it is.
    pub index: u16,
    /// Logical length of its blocks.
    pub block_bytes: u64,
    /// n of them, as they were known when the block was written.
    pub members: Vec<MemberState<NotedMember>>,
}

impl StripeNote {
    /// Its blocks that are stored.
    pub fn stored(&self) -> impl Iterator<Item = &NotedMember> {
        self.members.iter().filter_map(MemberState::stored)
    }

    /// Its blocks, virtual ones too.
    pub fn blocks(&self) -> impl Iterator<Item = &NotedMember> {
        self.members.iter().filter_map(MemberState::block)
    }
}

/// A member, as a note tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotedMember {
    /// Identity.
    pub block: BlockId,
    /// The newest then.
    pub generation: u64,
    /// What was known of it.
    pub contents: Contents,
}

/// Bytes that are no note, or one of another version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadNote(&'static str);

/// The note of member `index`.
pub fn encode<'a>(
    facts: StripeFacts<'_>,
    index: u16,
    members: impl ExactSizeIterator<Item = MemberState<MemberFacts<'a>>>,
) -> Vec<u8> {
    // As long as members that are parts of objects with names of usual length.
    let mut out = Vec::with_capacity(64 + members.len() * 288);
    out.push(VERSION);
    let mut is_virtual = false;
    out.extend_from_slice(&facts.stripe.to_bytes());
    out.extend_from_slice(&index.to_le_bytes());
    out.extend_from_slice(&facts.block_bytes.to_le_bytes());
    string(&mut out, facts.code);
    out.extend_from_slice(&(members.len() as u16).to_le_bytes());
    members.for_each(|state| {
        is_virtual |= state.is_virtual();
        member(&mut out, &state);
    });
    if is_virtual {
        out[0] = WITH_VIRTUAL;
    }
    out
}

fn member(out: &mut Vec<u8>, state: &MemberState<MemberFacts<'_>>) {
    let Some(facts) = state.block() else { return out.push(0) };
    out.push(if state.is_virtual() { 2 } else { 1 });
    out.extend_from_slice(&facts.block.to_bytes());
    out.extend_from_slice(&facts.generation.to_le_bytes());
    out.extend_from_slice(&facts.stored_bytes.to_le_bytes());
    known(out, facts.sums.digest.as_ref().map(<[u8; 32]>::as_slice));
    known(out, facts.sums.fingerprint.as_ref().map(|fingerprint| fingerprint.as_bytes().as_slice()));
    let Some(part) = facts.part else { return out.push(0) };
    out.push(1);
    string(out, &part.name);
    out.extend_from_slice(&part.version.to_le_bytes());
    out.extend_from_slice(&part.offset.to_le_bytes());
    out.push(part.last.into());
}

fn known(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(bytes.is_some().into());
    out.extend_from_slice(bytes.unwrap_or_default());
}

/// Names of codes and objects are shorter than its limit.
fn string(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(u16::MAX.into())];
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// What a note says.
///
/// # Errors
/// [`BadNote`] for anything that [`encode`] of this version does not write.
pub fn decode(bytes: &[u8]) -> Result<StripeNote, BadNote> {
    let mut from = Reader(bytes);
    let may_be_virtual = match from.byte()? {
        VERSION => false,
        WITH_VIRTUAL => true,
        _ => return Err(BadNote("a stripe's note of another version")),
    };
    let stripe = StripeId(from.id()?);
    let index = from.short()?;
    let block_bytes = from.number()?;
    let code = from.string()?;
    let members = (0..from.short()?).map(|_| from.member(may_be_virtual)).collect::<Result<_, _>>()?;
    match from.0 {
        [] => Ok(StripeNote { stripe, code, index, block_bytes, members }),
        _ => Err(BadNote("bytes follow a stripe's note")),
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadNote> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(BadNote("a stripe's note is cut off"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, BadNote> {
        self.take().map(|[byte]| byte)
    }

    fn short(&mut self) -> Result<u16, BadNote> {
        self.take().map(u16::from_le_bytes)
    }

    fn number(&mut self) -> Result<u64, BadNote> {
        self.take().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Result<u128, BadNote> {
        self.take().map(u128::from_be_bytes)
    }

    fn yes(&mut self) -> Result<bool, BadNote> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadNote("a stripe's note says neither yes nor no")),
        }
    }

    fn known<const N: usize>(&mut self) -> Result<Option<[u8; N]>, BadNote> {
        if self.yes()? { self.take().map(Some) } else { Ok(None) }
    }

    fn string(&mut self) -> Result<String, BadNote> {
        let length = self.short()?.into();
        let (text, rest) = self.0.split_at_checked(length).ok_or(BadNote("a stripe's note is cut off"))?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| BadNote("a name in a stripe's note is none"))
    }

    fn member(&mut self, may_be_virtual: bool) -> Result<MemberState<NotedMember>, BadNote> {
        let state = match self.byte()? {
            0 => return Ok(MemberState::Zero),
            1 => MemberState::Stored,
            2 if may_be_virtual => MemberState::Virtual,
            _ => return Err(BadNote("a member in a stripe's note is of no known kind")),
        };
        let (block, generation, stored_bytes) = (BlockId(self.id()?), self.number()?, self.number()?);
        let sums = Sums { digest: self.known()?, fingerprint: self.known()?.map(Fingerprint::from_bytes) };
        let part = if self.yes()? { Some(self.part()?) } else { None };
        Ok(state(NotedMember { block, generation, contents: Contents { stored_bytes, sums, part } }))
    }

    fn part(&mut self) -> Result<Part, BadNote> {
        let (name, version, offset) = (self.string()?, self.number()?, self.number()?);
        Ok(Part { name, version, offset, last: self.yes()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Part {
        Part { name: "höhe/x".to_owned(), version: 300, offset: 1 << 40, last: true }
    }

    /// A data block of which all is known, a new parity, and one that is all zero.
    fn note(part: &Part) -> Vec<u8> {
        let sums = Sums { digest: Some([7; 32]), fingerprint: Some(Fingerprint::from_bytes([9; 128])) };
        let data =
            MemberFacts { block: BlockId(5), generation: 4, stored_bytes: 70_000, sums, part: Some(part) };
        let parity = MemberFacts { block: BlockId(6), sums: Sums::default(), part: None, ..data };
        let facts = StripeFacts { stripe: StripeId(2), code: "rs-2+1", block_bytes: 1 << 26 };
        let members = [MemberState::Stored(data), MemberState::Zero, MemberState::Stored(parity)];
        encode(facts, 2, members.into_iter())
    }

    #[test]
    fn what_a_note_says_is_read_back() {
        let part = part();
        let read = decode(&note(&part)).unwrap();
        assert_eq!((read.stripe, read.code.as_str(), read.index), (StripeId(2), "rs-2+1", 2));
        let [MemberState::Stored(data), MemberState::Zero, MemberState::Stored(parity)] = &read.members[..]
        else {
            panic!("{:?}", read.members);
        };
        assert_eq!((data.block, data.generation, data.contents.stored_bytes), (BlockId(5), 4, 70_000));
        assert_eq!((data.contents.part.as_ref(), data.contents.sums.digest), (Some(&part), Some([7; 32])));
        assert_eq!((&parity.contents.part, parity.contents.sums), (&None, Sums::default()));
    }

    /// A virtual member is known in full, and only in notes of the version that has some.
    #[test]
    fn a_note_with_virtual_members_is_of_a_version_of_its_own() {
        let part = part();
        let data = MemberFacts {
            block: BlockId(5),
            generation: 0,
            stored_bytes: 9,
            sums: Sums::default(),
            part: Some(&part),
        };
        let stored = MemberFacts { block: BlockId(6), part: None, ..data };
        let facts = StripeFacts { stripe: StripeId(2), code: "rapidraid-1+1", block_bytes: 9 };
        let members = [MemberState::Virtual(data), MemberState::Stored(stored), MemberState::Stored(stored)];
        let note = encode(facts, 1, members.into_iter());
        assert_eq!(note[0], WITH_VIRTUAL);
        let read = decode(&note).unwrap();
        assert!(read.members[0].is_virtual() && read.members[0].stored().is_none());
        assert_eq!(read.blocks().next().unwrap().contents.part.as_ref(), Some(&part));
        assert_eq!(read.stored().map(|member| member.block).collect::<Vec<_>>(), [BlockId(6); 2]);
        let older = [&[VERSION], &note[1..]].concat();
        assert_eq!(
            decode(&older).unwrap_err().to_string(),
            "a member in a stripe's note is of no known kind"
        );
    }

    #[test]
    fn notes_stay_as_they_are() {
        let mut expected = vec![1];
        expected.extend_from_slice(&2_u128.to_be_bytes());
        expected.extend_from_slice(&[2, 0, 0, 0, 0, 4, 0, 0, 0, 0, 6, 0]);
        expected.extend_from_slice(b"rs-2+1");
        expected.extend_from_slice(&[3, 0]);
        let member = |block: u128| {
            let mut bytes = vec![1];
            bytes.extend_from_slice(&block.to_be_bytes());
            bytes.extend_from_slice(&[4, 0, 0, 0, 0, 0, 0, 0, 0x70, 0x11, 1, 0, 0, 0, 0, 0]);
            bytes
        };
        expected.extend(member(5));
        expected.extend([&[1][..], &[7; 32], &[1], &[9; 128], &[1, 7, 0], "höhe/x".as_bytes()].concat());
        expected.extend_from_slice(&[44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]);
        expected.push(0);
        expected.extend(member(6));
        expected.extend_from_slice(&[0, 0, 0]);
        assert_eq!(note(&part()), expected);
    }

    #[test]
    fn what_is_no_note_is_refused() {
        let whole = note(&part());
        (0..whole.len()).for_each(|length| assert!(decode(&whole[..length]).is_err(), "{length} bytes"));
        assert!(decode(&[&whole[..], &[0]].concat()).is_err());
        let another = [&[3], &whole[1..]].concat();
        assert_eq!(decode(&another).unwrap_err().to_string(), "a stripe's note of another version");
    }
}
