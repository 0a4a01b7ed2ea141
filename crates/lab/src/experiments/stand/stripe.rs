//! A stripe to repair.

use crate::cluster::LabCluster;
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
    /// Node of the first block, which is the one that is repaired.
    pub first_holder: u32,
    /// A node that holds no block of it.
    pub requestor: u32,
    /// Hosts of k other blocks, then the requestor's: the way of a chain.
    pub chain: Vec<usize>,
}

impl Stripe {
    /// Puts an object that fills a stripe and archives it.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::BadSpec`] for a bad code, or if there are too few nodes.
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
        let spare = cluster.node_ids().rev().find(|node| !members.contains(node));
        let requestor =
            spare.ok_or_else(|| LabError::BadSpec(format!("no node is free of {object}'s stripe")))?;
        let helpers = members.iter().skip(1).take(code.k()).chain([&requestor]);
        let chain = helpers.map(|&node| Ok(cluster.host_of(node)?.index)).collect::<Result<_, LabError>>()?;
        let first_holder = members.first().copied().unwrap_or_default();
        Ok(Stripe { object: object.to_owned(), code, block_bytes, first_holder, requestor, chain })
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
