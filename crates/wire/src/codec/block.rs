//! Blocks as messages: copies to read, blocks to write, parts of objects, sums.

use super::{invalid, narrow};
use crate::proto;
use flow::Member;
use flow::bound::{BlockRead, BlockWrite};
use gf::{FINGERPRINT_BYTES, Fingerprint};
use model::hdfs::Permit;
use model::{BlockId, Fault, Incarnation, Part, Position, Stamp, StoreId, StoredCopy, Sums, Term};

impl From<StoredCopy> for proto::BlockRef {
    fn from(copy: StoredCopy) -> proto::BlockRef {
        let StoredCopy { block, generation, stored_bytes } = copy;
        proto::BlockRef { block: block.to_vec(), generation, stored_bytes, ..Default::default() }
    }
}

impl From<BlockRead> for proto::BlockRef {
    fn from(read: BlockRead) -> proto::BlockRef {
        let sums = Sums { digest: read.digest, fingerprint: read.fingerprint };
        let (digest, fingerprint) = sums_fields(&sums);
        let message = |Permit { identifier, proof }| proto::BlockPermit { identifier, proof: proof.to_vec() };
        proto::BlockRef { digest, fingerprint, permit: read.permit.map(message), ..read.copy.into() }
    }
}

impl From<Part> for proto::ObjectPart {
    fn from(part: Part) -> proto::ObjectPart {
        let Part { name, version, offset, last } = part;
        proto::ObjectPart { name, version, offset, last }
    }
}

impl From<proto::ObjectPart> for Part {
    fn from(part: proto::ObjectPart) -> Part {
        let proto::ObjectPart { name, version, offset, last } = part;
        Part { name, version, offset, last }
    }
}

impl From<Stamp> for proto::Stamp {
    fn from(stamp: Stamp) -> proto::Stamp {
        let Stamp { term: Term { number, word }, change } = stamp;
        proto::Stamp { term: number, word, change }
    }
}

impl From<proto::Stamp> for Stamp {
    fn from(stamp: proto::Stamp) -> Stamp {
        let proto::Stamp { term: number, word, change } = stamp;
        Stamp { term: Term { number, word }, change }
    }
}

impl From<Position> for proto::Position {
    fn from(position: Position) -> proto::Position {
        proto::Position { stamp: Some(position.stamp.into()), hash: position.hash.to_vec() }
    }
}

impl From<proto::Position> for Position {
    /// What has no hash is the beginning of all.
    fn from(position: proto::Position) -> Position {
        let hash = position.hash.try_into();
        let stamp = position.stamp.map(Stamp::from).unwrap_or_default();
        hash.map_or_else(|_| Position::default(), |hash| Position { stamp, hash })
    }
}

/// Digest and fingerprint as fields, empty where they are not known.
pub fn sums_fields(sums: &Sums) -> (Vec<u8>, Vec<u8>) {
    let fingerprint = sums.fingerprint.map(|f| f.as_bytes().to_vec());
    (sums.digest.map(|d| d.to_vec()).unwrap_or_default(), fingerprint.unwrap_or_default())
}

/// A start of a store; `None` if it is not told.
pub fn start_of_store(store: &[u8], word: u64) -> Option<(StoreId, Incarnation)> {
    Some((StoreId::from_slice(store).ok()?, Incarnation(word)))
}

/// From such fields; `None` if a length is wrong.
pub fn sums(digest: &[u8], fingerprint: &[u8]) -> Option<Sums> {
    let digest = if digest.is_empty() { None } else { Some(digest.try_into().ok()?) };
    let fingerprint = match fingerprint {
        [] => None,
        bytes => Some(Fingerprint::from_bytes(<[u8; FINGERPRINT_BYTES]>::try_from(bytes).ok()?)),
    };
    Some(Sums { digest, fingerprint })
}

pub(super) fn write_message(write: &BlockWrite) -> proto::BlockWrite {
    let (digest, fingerprint) = sums_fields(&write.sums);
    proto::BlockWrite {
        member: u32::from(write.member.0),
        block: write.block.to_vec(),
        generation: write.generation,
        stored_bytes: write.stored_bytes,
        digest,
        fingerprint,
        object: write.part.clone().map(Into::into),
        stripe: write.note.clone(),
        birth: Some(write.birth.into()),
    }
}

pub(super) fn write(write: &proto::BlockWrite) -> Result<BlockWrite, Fault> {
    let sums = sums(&write.digest, &write.fingerprint);
    Ok(BlockWrite {
        member: Member(narrow(write.member)?),
        block: id(&write.block)?,
        generation: write.generation,
        stored_bytes: write.stored_bytes,
        sums: sums.ok_or_else(|| invalid("digest or fingerprint of a block to write"))?,
        part: write.object.clone().map(Into::into),
        note: write.stripe.clone(),
        birth: write.birth.map(Into::into).unwrap_or_default(),
    })
}

pub(super) fn read(read: &proto::BlockRef) -> Result<BlockRead, Fault> {
    let (generation, stored_bytes) = (read.generation, read.stored_bytes);
    let sums = sums(&read.digest, &read.fingerprint);
    let sums = sums.ok_or_else(|| invalid("digest or fingerprint of a block to read"))?;
    Ok(BlockRead {
        copy: StoredCopy { block: id(&read.block)?, generation, stored_bytes },
        digest: sums.digest,
        fingerprint: sums.fingerprint,
        permit: read.permit.as_ref().map(permit).transpose()?,
    })
}

fn permit(message: &proto::BlockPermit) -> Result<Permit, Fault> {
    let proof = message.proof.as_slice().try_into();
    let proof = proof.ok().filter(|_| message.identifier.len() <= usize::from(u16::MAX));
    let proof = proof.ok_or_else(|| invalid("what permits the reading of a block"))?;
    Ok(Permit { identifier: message.identifier.clone(), proof })
}

fn id(bytes: &[u8]) -> Result<BlockId, Fault> {
    BlockId::from_slice(bytes).map_err(|_| invalid("block id"))
}
