//! The record of repairs: what each flow was to move and what it moved.

use crate::form;
use model::{BlockId, FlowId, NodeId};
use serde::{Deserialize, Serialize, Serializer};

/// A repair's flow, as it ended. Where people read it, as JSON, ids are hexadecimal text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// When it ended, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What it was to make.
    #[serde(serialize_with = "texts", deserialize_with = "form::deserialize")]
    pub blocks: Vec<BlockId>,
    /// The flow.
    #[serde(serialize_with = "text", deserialize_with = "form::deserialize")]
    pub flow: FlowId,
    /// Which attempt of the flow.
    pub attempt: u32,
    /// The scheme's name.
    pub scheme: String,
    /// Why this scheme, unless it was asked for.
    pub why: Option<String>,
    /// Who drove it.
    #[serde(with = "form")]
    pub driver: NodeId,
    /// Who read for it.
    #[serde(with = "form")]
    pub helpers: Vec<NodeId>,
    /// Over all links.
    pub predicted_bytes: u64,
    /// Over all links.
    pub moved_bytes: u64,
    /// Predicted, between racks.
    pub cross_rack_bytes: u64,
    /// Predicted, on equal links (RP §2.2).
    pub timeslots: f64,
    /// On the links as they were known.
    pub predicted_s: Option<f64>,
    /// Until all bytes were checked.
    pub verified_us: u64,
    /// Until all bytes were on disks.
    pub durable_us: u64,
    /// Slices of each symbol that earlier attempts had brought: then less is moved than was predicted for all, and links
    /// are not compared.
    pub kept_slices: u64,
    /// Links that carried other bytes than predicted.
    pub differing: Vec<Difference>,
    /// What went wrong; none: the blocks were made.
    pub fault: Option<String>,
}

/// A link that carried other bytes than predicted; the client is 0.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// Who sent.
    pub from: u32,
    /// Who received.
    pub to: u32,
    /// What it was to carry.
    pub predicted_bytes: u64,
    /// What it carried.
    pub moved_bytes: u64,
}

fn text<S: Serializer>(flow: &FlowId, serializer: S) -> Result<S::Ok, S::Error> {
    match serializer.is_human_readable() {
        true => serializer.collect_str(flow),
        false => form::serialize(flow, serializer),
    }
}

fn texts<S: Serializer>(blocks: &Vec<BlockId>, serializer: S) -> Result<S::Ok, S::Error> {
    match serializer.is_human_readable() {
        true => serializer.collect_seq(blocks.iter().map(ToString::to_string)),
        false => form::serialize(blocks, serializer),
    }
}
