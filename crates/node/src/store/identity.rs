//! The file that says whose store a folder is. Text, so that an operator can read it:
//!
//! ```text
//! stripeline-store 2
//! program 0.1.0                                    (the last that wrote it)
//! node 7
//! store ffeeddccbbaa99887766554433221100           (which store it is, for good)
//! cluster 00112233445566778899aabbccddeeff         ("none" before the node has joined one)
//! accepted 0123456789abcdef                        (the word of the start that was last welcomed; or "none")
//! tried 00000000000000aa 00000000000000bb          (those of the starts since that asked to be; or "none")
//! heard 3 00000000000000cc 42                      (the last change of the catalog that it heard of: term, its word, number)
//! crc32c f097421e                                  (of the lines above)
//! ```

use super::{Result, StoreError};
use disk::{Disk, DiskError, Durably, SyncPoint};
use model::{ClusterId, Incarnation, NodeId, Stamp, StoreId, Term};
use std::fmt::Write;
use std::path::Path;
use wire::frame::crc32c;

const FILE: &str = "identity";

/// Sync points of a new identity.
const DURABLY: Durably = Durably { file: SyncPoint::Format, folder: SyncPoint::FormatFolder };

/// The first line, before the version.
const MAGIC: &str = "stripeline-store ";
const VERSION: &str = "2";
const VERSION_1: &str = "1";

/// The version of the program, so that another one can say which program reads the store.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Longer than any identity; more is not read.
const MAX_IDENTITY_BYTES: u64 = 1024;

/// Starts that are remembered though nobody welcomed them. Each asked a coordinator that answered, and then died before it
/// could note the answer: more than a few in a row are none of a healthy machine, and the oldest is forgotten.
const MAX_TRIED: usize = 16;

/// Whose store it is, which one, and the words of its starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The store, for good.
    pub store: StoreId,
    /// Its cluster, once it has joined one.
    pub cluster: Option<ClusterId>,
    /// The start that a coordinator last welcomed, as far as is known here.
    pub accepted: Option<Incarnation>,
    /// Starts since that asked to be: one of them may have been welcomed, and have died before it noted so.
    pub tried: Vec<Incarnation>,
    /// The last change of the catalog that it heard of and has noted, in the highest term.
    pub heard: Stamp,
}

/// An identity file of a version that is read.
pub(super) enum Loaded {
    /// Of the present one.
    Current(Identity),
    /// Of version 1, which knew no stores.
    Version1 {
        /// The node.
        node: NodeId,
        /// Its cluster.
        cluster: Option<ClusterId>,
    },
}

impl Loaded {
    pub(super) fn node(&self) -> NodeId {
        match self {
            Loaded::Current(identity) => identity.node,
            Loaded::Version1 { node, .. } => *node,
        }
    }
}

impl Identity {
    /// Of a store that never started.
    pub(super) fn new(node: NodeId, store: StoreId) -> Identity {
        Identity { node, store, cluster: None, accepted: None, tried: Vec::new(), heard: Stamp::default() }
    }

    /// The same after a start that asks to be welcomed.
    pub(super) fn with_tried(&self, word: Incarnation) -> Identity {
        let mut tried = self.tried.clone();
        tried.push(word);
        tried.drain(..tried.len().saturating_sub(MAX_TRIED));
        Identity { tried, ..self.clone() }
    }

    fn encode(&self) -> String {
        let Identity { node, store, cluster, accepted, tried, heard } = self;
        let cluster = cluster.map_or("none".to_owned(), |cluster| cluster.to_string());
        let words = |words: &[Incarnation]| match words {
            [] => "none".to_owned(),
            words => words.iter().map(|word| format!("{:016x}", word.0)).collect::<Vec<_>>().join(" "),
        };
        let (accepted, tried) = (words(accepted.as_slice()), words(tried));
        let mut text = format!(
            "{MAGIC}{VERSION}\nprogram {PROGRAM}\nnode {}\nstore {store}\ncluster {cluster}\naccepted {accepted}\ntried {tried}\nheard {} {:016x} {}\n",
            node.0, heard.term.number, heard.term.word, heard.change
        );
        let crc = crc32c(text.as_bytes());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "crc32c {crc:08x}");
        text
    }

    fn decode(text: &str) -> Result<Loaded> {
        let bad = |why| StoreError::BadIdentity { why };
        let version = text.lines().next().and_then(|line| line.strip_prefix(MAGIC));
        let version = version.ok_or(bad("it does not begin like one"))?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let is_number = version.parse::<u32>().is_ok_and(|number| number.to_string() == version);
        if is_number && ![VERSION, VERSION_1].contains(&version) {
            let reader = match field("program ") {
                Some(program) => format!("the program that wrote it, stripeline {program}, or a later one"),
                None => "the program that wrote it, or a later one".to_owned(),
            };
            return Err(StoreError::UnknownStore { found: version.to_owned(), reader });
        }
        let body_bytes = text.find("crc32c ").ok_or(bad("its checksum is missing"))?;
        let (body, crc) = text.split_at(body_bytes);
        if crc != format!("crc32c {:08x}\n", crc32c(body.as_bytes())) {
            return Err(bad("its checksum does not hold"));
        }
        let node = field("node ").and_then(|node| node.parse().ok()).ok_or(bad("it names no node"))?;
        let node = NodeId(node);
        let cluster = match field("cluster ") {
            Some("none") => None,
            Some(id) => Some(id.parse().map_err(|_| bad("it names no cluster"))?),
            None => return Err(bad("it names no cluster")),
        };
        if version == VERSION_1 {
            return Ok(Loaded::Version1 { node, cluster });
        }
        let store = field("store ").and_then(|store| store.parse().ok()).ok_or(bad("it names no store"))?;
        let accepted = field("accepted ").and_then(words).ok_or(bad("its accepted word is none"))?;
        let tried = field("tried ").and_then(words).ok_or(bad("its tried words are none"))?;
        let heard = field("heard ").and_then(stamp).ok_or(bad("what it heard is no change"))?;
        let accepted = accepted.first().copied();
        Ok(Loaded::Current(Identity { node, store, cluster, accepted, tried, heard }))
    }

    /// Reads it; [`StoreError::NotFormatted`] if there is none.
    pub(super) fn load(disk: &dyn Disk) -> Result<Loaded> {
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
        Ok(disk::replace(disk, Path::new(FILE), self.encode().as_bytes(), Some(DURABLY))?)
    }
}

/// Keeps room for the next identity, if the disk has any.
pub(super) fn keep_spare(disk: &dyn Disk) {
    disk::keep_spare(disk, Path::new(FILE), Some(DURABLY));
}

fn words(text: &str) -> Option<Vec<Incarnation>> {
    let word = |digits: &str| u64::from_str_radix(digits, 16).ok().map(Incarnation);
    if text == "none" { Some(Vec::new()) } else { text.split(' ').map(word).collect() }
}

fn stamp(text: &str) -> Option<Stamp> {
    let mut parts = text.split(' ');
    let number = parts.next()?.parse().ok()?;
    let word = u64::from_str_radix(parts.next()?, 16).ok()?;
    let change = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Stamp { term: Term { number, word }, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN_V1: &str =
        "stripeline-store 1\nnode 7\ncluster 00112233445566778899aabbccddeeff\ncrc32c f097421e\n";

    const CLUSTER: ClusterId = ClusterId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

    /// As it is, but for the checksum; `program` changes with each release.
    fn golden() -> String {
        let body = format!(
            "stripeline-store 2\nprogram {PROGRAM}\nnode 7\nstore ffeeddccbbaa99887766554433221100\n\
             cluster 00112233445566778899aabbccddeeff\naccepted 0123456789abcdef\n\
             tried 00000000000000aa 00000000000000bb\nheard 3 00000000000000cc 42\n"
        );
        let crc = crc32c(body.as_bytes());
        format!("{body}crc32c {crc:08x}\n")
    }

    fn identity() -> Identity {
        Identity {
            node: NodeId(7),
            store: StoreId(0xffee_ddcc_bbaa_9988_7766_5544_3322_1100),
            cluster: Some(CLUSTER),
            accepted: Some(Incarnation(0x0123_4567_89ab_cdef)),
            tried: vec![Incarnation(0xaa), Incarnation(0xbb)],
            heard: Stamp { term: Term { number: 3, word: 0xcc }, change: 42 },
        }
    }

    #[test]
    fn the_format_is_stable_and_the_one_before_is_read() {
        assert_eq!(identity().encode(), golden());
        assert!(matches!(Identity::decode(&golden()), Ok(Loaded::Current(it)) if it == identity()));
        let alone = Identity::new(NodeId(u32::MAX), StoreId(1));
        assert!(matches!(Identity::decode(&alone.encode()), Ok(Loaded::Current(it)) if it == alone));
        let old = Identity::decode(GOLDEN_V1);
        assert!(matches!(old, Ok(Loaded::Version1 { node: NodeId(7), cluster: Some(CLUSTER) })));
    }

    #[test]
    fn an_unknown_version_is_named_with_the_program_that_reads_it() {
        let later = golden().replace("stripeline-store 2", "stripeline-store 3").replace(PROGRAM, "9.8.7");
        let Err(refused @ StoreError::UnknownStore { .. }) = Identity::decode(&later) else { panic!() };
        let said = refused.to_string();
        assert!(said.contains("version 3") && said.contains("stripeline 9.8.7"), "{said}");
        assert!(matches!(Identity::decode("stripeline-store 4\n"), Err(StoreError::UnknownStore { .. })));
    }

    #[test]
    fn only_the_latest_starts_that_nobody_welcomed_are_kept() {
        let tried = (0..40).fold(identity(), |identity, word| identity.with_tried(Incarnation(word))).tried;
        assert_eq!(tried, (40 - MAX_TRIED as u64..40).map(Incarnation).collect::<Vec<_>>());
        let longest = Identity { tried, ..identity() }.encode();
        assert!(longest.len() as u64 <= MAX_IDENTITY_BYTES, "{}", longest.len());
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        for golden in [golden().as_str(), GOLDEN_V1] {
            for end in 0..golden.len() {
                assert!(Identity::decode(&golden[..end]).is_err(), "{end}");
            }
            for bit in 0..golden.len() * 8 {
                let mut bytes = golden.as_bytes().to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let decoded = std::str::from_utf8(&bytes).ok().map(Identity::decode);
                assert!(!matches!(decoded, Some(Ok(_))), "{bit}");
            }
        }
    }
}
