//! What a local cluster consists of.

use crate::amount::{Rate, Size};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// Recorded in `cluster.json`; kept while the cluster is down.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Version of this record.
    pub format: u32,
    /// Where the coordinator listened last; taken again if free.
    pub coordinator_port: Option<u16>,
    pub racks: u32,
    pub nodes: Vec<Member>,
    pub block_bytes: Option<u64>,
    pub throttle_bytes_per_s: u64,
    /// Of each node's disk; none for what nodes keep unasked.
    #[serde(default)]
    pub reserve_bytes: Option<u64>,
    /// All of its nodes have registered once: from then on an empty folder of the coordinator is a lost one.
    #[serde(default = "was_founded")]
    pub founded: bool,
}

/// Clusters of before this was recorded.
fn was_founded() -> bool {
    true
}

/// A node of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub id: u32,
    pub rack: String,
}

const FORMAT: u32 = 1;

/// Without `--nodes`: the smallest number that holds an rs-10+4 stripe and has somewhere to repair to.
const DEFAULT_NODES: u32 = 16;

/// A node is a process with threads; more than this is a mistake on one machine.
const MAX_NODES: u32 = 256;

impl Cluster {
    pub fn new() -> Cluster {
        Cluster {
            format: FORMAT,
            coordinator_port: None,
            racks: 0,
            nodes: Vec::new(),
            block_bytes: None,
            throttle_bytes_per_s: 0,
            reserve_bytes: None,
            founded: false,
        }
    }

    /// Takes over what was asked for, as far as a cluster with data can still change.
    pub fn reshape(
        &mut self,
        nodes: Option<u32>,
        racks: Option<u32>,
        block_size: Option<Size>,
        throttle: Option<Rate>,
    ) -> Result<()> {
        if self.format != FORMAT {
            bail!("the cluster was made by another version (format {}, this is {FORMAT})", self.format);
        }
        let have = self.nodes.len() as u32;
        let nodes = nodes.unwrap_or(if have == 0 { DEFAULT_NODES } else { have });
        if nodes < have {
            bail!("the cluster has {have} nodes with data; give --nodes {have} or more, or another --dir");
        }
        if nodes == 0 || nodes > MAX_NODES {
            bail!("--nodes must be from 1 to {MAX_NODES}");
        }
        match racks {
            Some(0) => bail!("--racks must be at least 1"),
            Some(racks) if have > 0 && racks != self.racks => {
                bail!(
                    "the cluster has {} racks and keeps them; leave --racks out, or give another --dir",
                    self.racks
                )
            }
            Some(racks) => self.racks = racks,
            None => self.racks = self.racks.max(1),
        }
        for id in have + 1..=nodes {
            self.nodes.push(Member { id, rack: format!("rack-{}", (id - 1) % self.racks + 1) });
        }
        if let Some(Size(bytes)) = block_size {
            self.block_bytes = Some(bytes);
        }
        if let Some(Rate(bytes_per_s)) = throttle {
            self.throttle_bytes_per_s = bytes_per_s;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_grows_and_never_shrinks() {
        let mut cluster = Cluster::new();
        cluster.reshape(Some(5), Some(2), None, None).unwrap();
        let racks: Vec<&str> = cluster.nodes.iter().map(|n| n.rack.as_str()).collect();
        assert_eq!(racks, ["rack-1", "rack-2", "rack-1", "rack-2", "rack-1"]);
        cluster.reshape(None, None, None, None).unwrap();
        assert_eq!(cluster.nodes.len(), 5);
        cluster.reshape(Some(6), Some(2), None, None).unwrap();
        assert_eq!(cluster.nodes[5], Member { id: 6, rack: "rack-2".to_owned() });
        assert!(cluster.reshape(Some(4), None, None, None).is_err());
        assert!(cluster.reshape(None, Some(3), None, None).is_err());
        assert!(Cluster::new().reshape(Some(0), None, None, None).is_err());
    }
}
