//! What HDFS calls DataNodes, block pools and blocks, as flows name them. This is the one place where names are derived; a
//! helper and whoever plans arrive at the same ones without asking each other.
//!
//! ```text
//!   BlockId      mark of the block pool (8 bytes) | the block's id (8 bytes)      generation: its stamp
//!   NodeId       the DataNode's uuid, folded to 31 bits, with the highest bit set
//!   StripeId     as the BlockId of the block group
//! ```
//!
//! Numbers of the cluster's own nodes are small, so nobody takes one for the other.

use crate::id::{BlockId, StoreId, StripeId};
use crate::node::NodeId;
use std::collections::BTreeMap;
use std::fmt;

/// A number with this bit is that of a helper beside a DataNode.
pub const FOREIGN_NUMBER: u32 = 1 << 31;

/// A block pool, by a mark of its name. A DataNode has one pool for each name service, so 64 bits are plenty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PoolMark(pub u64);

impl PoolMark {
    /// Of a pool's name, as `BP-1093475-10.0.0.1-1690000000000`: FNV-1a, 64 bits.
    pub fn of(pool: &str) -> PoolMark {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        PoolMark(pool.bytes().fold(BASIS, |mark, byte| (mark ^ u64::from(byte)).wrapping_mul(PRIME)))
    }

    /// A block of it.
    pub fn block(self, block: i64) -> BlockId {
        BlockId(u128::from(self.0) << 64 | u128::from(block.cast_unsigned()))
    }

    /// The stripe that a block group of it is.
    pub fn group(self, group: i64) -> StripeId {
        StripeId(self.block(group).0)
    }
}

/// The pool of a block, and its id there.
pub fn parts(block: BlockId) -> (PoolMark, i64) {
    (PoolMark((block.0 >> 64) as u64), (block.0 as u64).cast_signed())
}

/// A DataNode, by its uuid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Datanode(pub StoreId);

impl Datanode {
    /// Of the text of a uuid; `None` if it is none. DataNodes that were once of version 2.3 or earlier have other ones.
    pub fn parse(text: &str) -> Option<Datanode> {
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        let digits = text.replace('-', "");
        digits.parse().ok().map(Datanode).filter(|_| groups == [8, 4, 4, 4, 12])
    }

    /// The number of the helper beside it.
    pub fn number(self) -> NodeId {
        let uuid = self.0.0;
        let folded = [96, 64, 32, 0].iter().fold(0, |sum, shift| sum ^ (uuid >> shift) as u32);
        NodeId(folded | FOREIGN_NUMBER)
    }
}

impl NodeId {
    /// Whether it stands beside a DataNode.
    pub fn is_foreign(self) -> bool {
        self.0 & FOREIGN_NUMBER != 0
    }
}

/// A block group of HDFS, as whoever wants to read it knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockGroup {
    /// The pool.
    pub pool: PoolMark,
    /// Its id: that of its first block. The others follow.
    pub id: i64,
    /// The generation stamp of its blocks.
    pub generation: u64,
    /// The code, by our name.
    pub code: String,
    /// How its data are dealt out.
    pub layout: Layout,
    /// Members that DataNodes have, but for those that are all zero, which nobody stores.
    pub living: BTreeMap<u16, Held>,
}

/// Who has a member of a block group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The DataNode.
    pub datanode: Datanode,
    /// Where HDFS's topology has it; empty if nobody knows.
    pub rack: String,
    /// The block that has the member's bytes, if it is not one of the group: a replica of a file that is to be encoded.
    pub replica: Option<Replica>,
}

/// A block of a replicated file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replica {
    /// Its id.
    pub block: i64,
    /// Its stamp, at least 1.
    pub generation: u64,
}

impl BlockGroup {
    /// The block that has a member's bytes, and its stamp.
    pub fn stored(&self, member: u16) -> (BlockId, u64) {
        match self.living.get(&member).and_then(|held| held.replica) {
            Some(replica) => (self.pool.block(replica.block), replica.generation),
            None => (self.pool.block(self.id.wrapping_add(i64::from(member))), self.generation),
        }
    }
}

/// A block token of HDFS: a NameNode or a DataNode has made it, and whoever knows its password may do with a block what it says.
#[derive(Clone, PartialEq, Eq)]
pub struct BlockToken {
    /// Which block it is about, for whom, until when: HDFS's own bytes, which nobody here looks into.
    pub identifier: Vec<u8>,
    /// The secret.
    pub password: Vec<u8>,
}

/// That whoever announces a flow has the token of a block, without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Permit {
    /// The token's.
    pub identifier: Vec<u8>,
    /// Made of the password and the flow's id, so that it is good for that flow alone.
    pub proof: [u8; PROOF_BYTES],
}

/// Bytes of a proof: those of HMAC-SHA256.
pub const PROOF_BYTES: usize = 32;

/// Logs have no secrets.
impl fmt::Debug for BlockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockToken({} bytes)", self.identifier.len())
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({} bytes)", self.identifier.len())
    }
}

/// How the data of a block group are dealt out to its k data blocks: cell by cell, in turn.
///
/// ```text
///   k = 3, cells of 4, 18 bytes      block 0   0000 3333      8
///                                    block 1   1111 44        6
///                                    block 2   2222           4
///                                    parities  pppp pppp      8, as long as block 0
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Data blocks.
    pub k: u16,
    /// Bytes of a cell, at least 1.
    pub cell_bytes: u64,
    /// Bytes of data in the group.
    pub data_bytes: u64,
}

impl Layout {
    /// The stored length of a member.
    pub fn stored_bytes(&self, member: u16) -> u64 {
        let (k, cell) = (u64::from(self.k.max(1)), self.cell_bytes.max(1));
        let column = if member < self.k { u64::from(member) } else { 0 };
        let cells = self.data_bytes / cell;
        let whole = cells / k + u64::from(cells % k > column);
        let rest = if cells % k == column { self.data_bytes % cell } else { 0 };
        whole.saturating_mul(cell).saturating_add(rest)
    }

    /// The length of the longest block: the first one, and the parities.
    pub fn block_bytes(&self) -> u64 {
        self.stored_bytes(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_blocks_can_be_taken_apart_again() {
        let pool = PoolMark::of("BP-1093475-10.0.0.1-1690000000000");
        for id in [i64::MIN, -9_223_372_036_854_775_792, -16, 0, i64::MAX] {
            assert_eq!(parts(pool.block(id)), (pool, id));
        }
        // FNV-1a's own vector.
        assert_eq!(PoolMark::of("foobar").0, 0x8594_4171_f739_67e8);
        assert_eq!(pool.group(-16).0, pool.block(-16).0);
    }

    #[test]
    fn datanodes_have_numbers_that_no_node_of_ours_has() {
        let datanode = Datanode::parse("01234567-89ab-cdef-0123-456789abcdef").unwrap();
        assert_eq!(datanode.0.0, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(datanode.number(), NodeId(0x8000_0000));
        let other = Datanode::parse("01234567-89ab-cdef-0123-456789abcdee").unwrap();
        assert!(other.number() == NodeId(0x8000_0001) && other.number().is_foreign());
        assert!(!NodeId(7).is_foreign());
        for bad in ["", "DS-1-10.0.0.1-50010-1", "0123456789abcdef0123456789abcdef"] {
            assert_eq!(Datanode::parse(bad), None, "{bad}");
        }
    }

    /// By counting cells one after another.
    #[test]
    fn lengths_are_those_of_cells_that_are_dealt_out_in_turn() {
        for (k, cell_bytes) in [(2, 1), (3, 4), (6, 16), (10, 5)] {
            for data_bytes in 0..u64::from(k) * cell_bytes * 2 + 3 {
                let layout = Layout { k, cell_bytes, data_bytes };
                let mut lengths = vec![0; usize::from(k)];
                (0..data_bytes).for_each(|at| lengths[(at / cell_bytes % u64::from(k)) as usize] += 1);
                let found: Vec<u64> = (0..k).map(|member| layout.stored_bytes(member)).collect();
                assert_eq!(found, lengths, "{layout:?}");
                assert!(layout.block_bytes() == lengths[0] && layout.stored_bytes(k) == lengths[0]);
            }
        }
    }
}
