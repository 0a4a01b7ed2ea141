//! A stripe to repair.

use crate::cluster::{LabCluster, RepairOrder};
use crate::error::{Result, bad};
use codes::Code;
use model::{BlockId, NodeId};
use plan::Draw;
use std::collections::BTreeSet;

/// An archived object of one stripe.
pub struct Stripe {
    /// Its name.
    pub object: String,
    /// Its code.
    pub code: Code,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// The node of each block. The first one's block is the one that is repaired.
    pub members: Vec<NodeId>,
    /// The files of the other blocks.
    pub files: BTreeSet<String>,
    /// The node that rebuilds: one that holds no block of it.
    pub requestor: NodeId,
    /// Hosts of k other blocks, then the requestor's: the way of a chain.
    pub chain: Vec<usize>,
}

impl Stripe {
    /// Puts an object that fills a stripe and archives it. Its requestor is not chosen yet.
    ///
    /// # Errors
    /// [`crate::error::LabError::Client`]; [`crate::error::LabError::BadSpec`] for a bad code.
    pub fn store(cluster: &LabCluster, object: &str, code: &str, block_bytes: u64) -> Result<Stripe> {
        let code = Code::parse(code).map_err(bad)?;
        cluster.store_stripes(object, &code, 1, block_bytes)?;
        let info = cluster.lookup(object)?;
        let stripe = info.blocks.first().and_then(|block| block.stripe.as_ref());
        let stripe = stripe.ok_or_else(|| bad(format!("{object} was not archived")))?;
        let members = stripe.members.iter().map(|member| NodeId(member.node)).collect();
        let others = stripe.members.iter().skip(1);
        let files = others.filter_map(|member| Some(BlockId::from_slice(&member.block).ok()?.to_string()));
        let (object, files, requestor) = (object.to_owned(), files.collect(), NodeId(0));
        Ok(Stripe { object, code, block_bytes, members, files, requestor, chain: Vec::new() })
    }

    /// Chooses the last node without a block of it as the requestor, and with it the way of a chain.
    ///
    /// # Errors
    /// [`crate::error::LabError::BadSpec`] if there is none.
    pub fn find_requestor(&mut self, cluster: &LabCluster) -> Result<()> {
        let spare = cluster.nodes().rev().find(|node| !self.members.contains(node));
        self.requestor = spare.ok_or_else(|| bad(format!("no node is free of {}'s stripe", self.object)))?;
        let way = self.members.iter().skip(1).take(self.code.k()).chain([&self.requestor]);
        self.chain = way.map(|&node| Ok(cluster.host_of(node)?.index)).collect::<Result<_>>()?;
        Ok(())
    }

    /// The nodes of all other blocks in random order: the first k help.
    pub fn shuffled_helpers(&self, draw: &mut Draw) -> Vec<NodeId> {
        let mut helpers = self.members[1..].to_vec();
        draw.shuffle(&mut helpers);
        helpers
    }

    /// The order to repair its first block.
    pub fn order(&self, scheme: &str, slice_bytes: u32) -> RepairOrder {
        let requestor = Some(self.requestor);
        RepairOrder { slice_bytes, requestor, ..RepairOrder::discarded(&self.object, scheme) }
    }
}
