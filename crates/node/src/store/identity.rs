//! The file that says whose store a folder is. Text, so that an operator can read it:
//!
//! ```text
//! stripeline-store 1
//! node 7
//! cluster 00112233445566778899aabbccddeeff        ("none" before the node has joined one)
//! crc32c f097421e                                  (of the lines above)
//! ```

use super::names::remove_if_there;
use super::{Result, StoreError};
use disk::{Disk, DiskError, SyncPoint};
use model::{ClusterId, NodeId};
use std::fmt::Write;
use std::path::Path;
use wire::frame::crc32c;

const FILE: &str = "identity";
const NEW_FILE: &str = "identity.new";
const VERSION_LINE: &str = "stripeline-store 1";

/// Longer than any identity; more is not read.
const MAX_IDENTITY_BYTES: u64 = 1024;

/// Whose store it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Its cluster, once it has joined one.
    pub cluster: Option<ClusterId>,
}

impl Identity {
    fn encode(&self) -> String {
        let cluster = self.cluster.map_or("none".to_owned(), |cluster| cluster.to_string());
        let mut text = format!("{VERSION_LINE}\nnode {}\ncluster {cluster}\n", self.node.0);
        let crc = crc32c(text.as_bytes());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "crc32c {crc:08x}");
        text
    }

    fn decode(text: &str) -> Result<Self> {
        let bad = |why| StoreError::BadIdentity { why };
        if text.lines().next() != Some(VERSION_LINE) {
            return Err(bad("it is not of version 1"));
        }
        let body_bytes = text.find("crc32c ").ok_or(bad("its checksum is missing"))?;
        let (body, crc) = text.split_at(body_bytes);
        if crc != format!("crc32c {:08x}\n", crc32c(body.as_bytes())) {
            return Err(bad("its checksum does not hold"));
        }
        let field = |name: &str| body.lines().find_map(|line| line.strip_prefix(name));
        let node = field("node ").and_then(|node| node.parse().ok()).ok_or(bad("it names no node"))?;
        let cluster = match field("cluster ") {
            Some("none") => None,
            Some(id) => Some(id.parse().map_err(|_| bad("it names no cluster"))?),
            None => return Err(bad("it names no cluster")),
        };
        Ok(Self { node: NodeId(node), cluster })
    }

    /// Reads it; [`StoreError::NotFormatted`] if there is none.
    pub(super) fn load(disk: &dyn Disk) -> Result<Self> {
        let file = disk.open(Path::new(FILE)).map_err(|error| match error {
            DiskError::NotFound { .. } => StoreError::NotFormatted,
            other => other.into(),
        })?;
        let mut bytes = vec![0; file.len()?.min(MAX_IDENTITY_BYTES) as usize];
        file.read_exact_at(0, &mut bytes)?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| StoreError::BadIdentity { why: "it is no text" })?;
        Self::decode(text)
    }

    /// Makes it the folder's identity, durably. A power cut leaves the old one or this one.
    pub(super) fn save(&self, disk: &dyn Disk) -> Result<()> {
        remove_if_there(disk, Path::new(NEW_FILE))?;
        let file = disk.create_new(Path::new(NEW_FILE))?;
        file.write_at(0, self.encode().as_bytes())?;
        file.sync(SyncPoint::Format)?;
        disk.rename(Path::new(NEW_FILE), Path::new(FILE))?;
        Ok(disk.sync_folder(Path::new(""), SyncPoint::FormatFolder)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str =
        "stripeline-store 1\nnode 7\ncluster 00112233445566778899aabbccddeeff\ncrc32c f097421e\n";

    #[test]
    fn the_format_is_stable() {
        let identity =
            Identity { node: NodeId(7), cluster: Some(ClusterId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)) };
        assert_eq!(identity.encode(), GOLDEN);
        assert_eq!(Identity::decode(GOLDEN).unwrap(), identity);
        let alone = Identity { node: NodeId(u32::MAX), cluster: None };
        assert_eq!(Identity::decode(&alone.encode()).unwrap(), alone);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        for end in 0..GOLDEN.len() {
            assert!(Identity::decode(&GOLDEN[..end]).is_err(), "{end}");
        }
        for bit in 0..GOLDEN.len() * 8 {
            let mut bytes = GOLDEN.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let decoded = std::str::from_utf8(&bytes).ok().map(Identity::decode);
            assert!(!matches!(decoded, Some(Ok(_))), "{bit}");
        }
    }
}
