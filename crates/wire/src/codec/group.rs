//! Block groups of HDFS, and who lends their blocks, as messages.

use super::{invalid, narrow};
use crate::mac::Secret;
use crate::proto;
use model::hdfs::{BlockGroup, Datanode, Held, Layout, PoolMark, Replica};
use model::{Fault, Incarnation, NodeId, StoreId};
use std::collections::BTreeMap;

/// Blocks that a group has at most: those of the widest code.
const MAX_MEMBERS: usize = 512;

/// Length of addresses and of racks' names.
const MAX_NAME_BYTES: usize = 256;

/// Who lends blocks of a DataNode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lender {
    /// The DataNode.
    pub datanode: Datanode,
    /// Host and port of control calls.
    pub control_addr: String,
    /// Host and port of slices.
    pub data_addr: String,
    /// Its rack, until HDFS says another one.
    pub rack: String,
    /// This start of it.
    pub incarnation: Incarnation,
    /// Stages that it runs.
    pub running_stages: u32,
    /// It ends.
    pub leaves: bool,
    /// Secret of this start.
    pub secret: Secret,
}

impl Lender {
    /// The number that follows from the DataNode's uuid.
    pub fn node(&self) -> NodeId {
        self.datanode.number()
    }

    /// What a node of its number would say in a heartbeat.
    pub fn status(&self) -> proto::NodeStatus {
        proto::NodeStatus {
            node: self.node().0,
            store: self.datanode.0.to_vec(),
            incarnation: self.incarnation.0,
            running_stages: self.running_stages,
            ..Default::default()
        }
    }
}

impl From<&Lender> for proto::Lender {
    fn from(lender: &Lender) -> proto::Lender {
        proto::Lender {
            node: lender.node().0,
            datanode: lender.datanode.0.to_vec(),
            control_addr: lender.control_addr.clone(),
            data_addr: lender.data_addr.clone(),
            rack: lender.rack.clone(),
            protocol: crate::PROTOCOL_VERSION,
            incarnation: lender.incarnation.0,
            running_stages: lender.running_stages,
            leaves: lender.leaves,
            secret: lender.secret.to_vec(),
        }
    }
}

impl TryFrom<proto::Lender> for Lender {
    type Error = Fault;

    fn try_from(message: proto::Lender) -> Result<Lender, Fault> {
        if message.protocol != crate::PROTOCOL_VERSION {
            return Err(invalid("the helper speaks another version of the protocol: run the same on both"));
        }
        let lender = Lender {
            datanode: datanode(&message.datanode)?,
            control_addr: message.control_addr,
            data_addr: message.data_addr,
            rack: message.rack,
            incarnation: Incarnation(message.incarnation),
            running_stages: message.running_stages,
            leaves: message.leaves,
            secret: Secret::from_slice(&message.secret)
                .ok_or_else(|| invalid("the secret of the helper's start has another length"))?,
        };
        if lender.node().0 != message.node {
            return Err(invalid("the helper's number is not that of its DataNode's uuid"));
        }
        let names = [&lender.control_addr, &lender.data_addr, &lender.rack];
        if names.iter().any(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
            return Err(invalid("a helper needs a control and a data address, and a rack"));
        }
        Ok(lender)
    }
}

impl From<&BlockGroup> for proto::BlockGroup {
    fn from(group: &BlockGroup) -> proto::BlockGroup {
        let lent = |(&member, held): (&u16, &Held)| proto::LentBlock {
            member: u32::from(member),
            datanode: held.datanode.0.to_vec(),
            rack: held.rack.clone(),
            block: held.replica.map_or(0, |replica| replica.block),
            generation: held.replica.map_or(0, |replica| replica.generation),
        };
        proto::BlockGroup {
            pool: group.pool.0,
            group: group.id,
            generation: group.generation,
            code: group.code.clone(),
            data_blocks: u32::from(group.layout.k),
            cell_bytes: group.layout.cell_bytes,
            data_bytes: group.layout.data_bytes,
            living: group.living.iter().map(lent).collect(),
        }
    }
}

impl TryFrom<proto::BlockGroup> for BlockGroup {
    type Error = Fault;

    fn try_from(message: proto::BlockGroup) -> Result<BlockGroup, Fault> {
        if message.living.len() > MAX_MEMBERS {
            return Err(invalid("a block group of more members than any code has"));
        }
        let mut living = BTreeMap::new();
        for lent in message.living {
            if lent.rack.len() > MAX_NAME_BYTES {
                return Err(invalid("a rack's name that is too long"));
            }
            let replica = Replica { block: lent.block, generation: lent.generation };
            let replica = Some(replica).filter(|replica| replica.generation > 0);
            let held = Held { datanode: datanode(&lent.datanode)?, rack: lent.rack, replica };
            if living.insert(narrow(lent.member)?, held).is_some() {
                return Err(invalid("a member of a block group that is named twice"));
            }
        }
        let (cell_bytes, data_bytes) = (message.cell_bytes, message.data_bytes);
        let layout = Layout { k: narrow(message.data_blocks)?, cell_bytes, data_bytes };
        if layout.k == 0 || cell_bytes == 0 || data_bytes == 0 {
            return Err(invalid("a block group without data blocks, cells or bytes"));
        }
        let (pool, id) = (PoolMark(message.pool), message.group);
        Ok(BlockGroup { pool, id, generation: message.generation, code: message.code, layout, living })
    }
}

/// Members that are wanted: some, each once.
///
/// # Errors
/// A fault that says what is wrong.
pub fn wanted(members: &[u32]) -> Result<Vec<u16>, Fault> {
    let wanted: Vec<u16> = members.iter().map(|&member| narrow(member)).collect::<Result<_, _>>()?;
    let is_twice = |(place, member): (usize, &u16)| wanted[..place].contains(member);
    if wanted.is_empty() || wanted.len() > MAX_MEMBERS || wanted.iter().enumerate().any(is_twice) {
        return Err(invalid("the members of a block group that are wanted: at least one, and each once"));
    }
    Ok(wanted)
}

fn datanode(bytes: &[u8]) -> Result<Datanode, Fault> {
    StoreId::from_slice(bytes).map(Datanode).map_err(|_| invalid("the uuid of a DataNode: 16 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    fn datanode_of(number: u128) -> Datanode {
        Datanode(StoreId(number))
    }

    #[test]
    fn groups_and_lenders_come_back_as_they_were_and_nonsense_is_refused() {
        let held =
            |number, replica| Held { datanode: datanode_of(number), rack: "/rack-1".to_owned(), replica };
        let replica = Replica { block: 1_073_741_825, generation: 1_002 };
        let group = BlockGroup {
            pool: PoolMark::of("BP-1"),
            id: -9_223_372_036_854_775_792,
            generation: 1_001,
            code: "rs-cauchy-6+3".to_owned(),
            layout: Layout { k: 6, cell_bytes: 1 << 20, data_bytes: 700_001 },
            living: BTreeMap::from([(0, held(7, None)), (7, held(8, Some(replica))), (8, held(9, None))]),
        };
        let bytes = proto::BlockGroup::from(&group).encode_to_vec();
        let back = |message: proto::BlockGroup| BlockGroup::try_from(message);
        assert_eq!(back(proto::BlockGroup::decode(&bytes[..]).unwrap()).unwrap(), group);
        let message = || proto::BlockGroup::from(&group);
        let twice = proto::LentBlock { member: 8, ..message().living[0].clone() };
        assert!(back(proto::BlockGroup { cell_bytes: 0, ..message() }).is_err());
        assert!(back(proto::BlockGroup { data_blocks: 1 << 16, ..message() }).is_err());
        assert!(back(proto::BlockGroup { living: vec![twice; 2], ..message() }).is_err());

        let lender = Lender {
            datanode: datanode_of(5),
            control_addr: "127.0.0.1:1".to_owned(),
            data_addr: "127.0.0.1:2".to_owned(),
            rack: "/default-rack".to_owned(),
            incarnation: Incarnation(3),
            running_stages: 2,
            leaves: false,
            secret: Secret::draw(),
        };
        assert_eq!(Lender::try_from(proto::Lender::from(&lender)), Ok(lender.clone()));
        let message = || proto::Lender::from(&lender);
        assert!(Lender::try_from(proto::Lender { node: 5, ..message() }).is_err(), "another number");
        assert!(Lender::try_from(proto::Lender { protocol: 1, ..message() }).is_err());
        assert!(Lender::try_from(proto::Lender { data_addr: String::new(), ..message() }).is_err());
        assert!(wanted(&[3, 3]).is_err() && wanted(&[]).is_err() && wanted(&[1 << 16]).is_err());
        assert_eq!(wanted(&[4, 0]).unwrap(), [4, 0]);
    }
}
