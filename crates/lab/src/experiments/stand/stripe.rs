//! A stripe to repair.

use crate::cluster::{LabCluster, RepairOrder};
use crate::error::LabError;
use client::PutOptions;
use codes::Code;
use std::io::{self, Read};

/// An archived object of one stripe.
pub struct Stripe {
    /// Its name.
    pub object: String,
    /// Its code.
    pub code: Code,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// The node of each block. The first one's block is the one that is repaired.
    pub members: Vec<u32>,
    /// A node that holds no block of it.
    pub requestor: u32,
    /// Hosts of k other blocks, then the requestor's: the way of a chain.
    pub chain: Vec<usize>,
}

impl Stripe {
    /// Puts an object that fills a stripe and archives it. It has no requestor yet.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::BadSpec`] for a bad code.
    pub fn store(
        cluster: &LabCluster,
        object: &str,
        code: &str,
        block_bytes: u64,
    ) -> Result<Stripe, LabError> {
        let code = Code::parse(code).map_err(|error| LabError::BadSpec(error.to_string()))?;
        let input = Noise { state: 0x9e37_79b9_7f4a_7c15, left: block_bytes * code.k() as u64 };
        let first = cluster.host_of(1)?.index;
        // One replica: how it got there is not the question.
        let options = PutOptions { block_bytes, replicas: 1, ..PutOptions::default() };
        cluster.with_client(first, async |client| Ok(client.put(object, input, options).await?))?;
        cluster.archive(object, code.name())?;
        let info = cluster.lookup(object)?;
        let stripe = info.blocks.first().and_then(|block| block.stripe.as_ref());
        let members =
            stripe.map(|stripe| stripe.members.iter().map(|member| member.node).collect::<Vec<_>>());
        let members = members.ok_or_else(|| LabError::BadSpec(format!("{object} was not archived")))?;
        let object = object.to_owned();
        Ok(Stripe { object, code, block_bytes, members, requestor: 0, chain: Vec::new() })
    }

    /// Chooses the last node without a block of it as the requestor, and with it the way of a chain.
    ///
    /// # Errors
    /// [`LabError::BadSpec`] if there is none.
    pub fn find_requestor(&mut self, cluster: &LabCluster) -> Result<(), LabError> {
        let spare = cluster.node_ids().rev().find(|node| !self.members.contains(node));
        let none = || LabError::BadSpec(format!("no node is free of {}'s stripe", self.object));
        self.requestor = spare.ok_or_else(none)?;
        let way = self.members.iter().skip(1).take(self.code.k()).chain([&self.requestor]);
        self.chain = way.map(|&node| Ok(cluster.host_of(node)?.index)).collect::<Result<_, LabError>>()?;
        Ok(())
    }

    /// The order to repair its first block.
    pub fn order(&self, scheme: &str, slice_bytes: u32) -> RepairOrder {
        RepairOrder {
            slice_bytes,
            requestor: self.requestor,
            ..RepairOrder::discarded(&self.object, 0, scheme)
        }
    }
}

/// So many bytes without a pattern, the same in every run (xorshift64, Marsaglia 2003).
struct Noise {
    state: u64,
    left: u64,
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        for piece in buffer[..wanted].chunks_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            piece.copy_from_slice(&self.state.to_le_bytes()[..piece.len()]);
        }
        self.left -= wanted as u64;
        Ok(wanted)
    }
}
