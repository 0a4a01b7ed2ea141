//! Calls that take long and tell how they get on.

use crate::calls::rpc;
use crate::connect::{self, Client};
use crate::error::{ClientError, Result};
use std::time::Duration;
use tonic::Streaming;
use wire::proto::{
    ArchiveRequest, CatalogChunk, CompactRequest, CompareNodeReply, CompareNodeRequest, Empty, JobEvent,
    NodeInfo, RepairRequest, ScrubEvent, ScrubRequest,
};

/// A stream of messages.
pub struct Events<T> {
    stream: Streaming<T>,
    address: String,
}

/// The events of a scrub; a backup's pieces.
pub type CatalogChunks = Events<CatalogChunk>;

/// The events of a repair or an archival.
pub struct JobEvents {
    events: Events<JobEvent>,
    done: bool,
}

impl<T> Events<T> {
    /// The next one; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<T>> {
        self.stream.message().await.map_err(|s| ClientError::from_status(&s, &self.address))
    }
}

impl JobEvents {
    /// The next event; `None` after the one that says "done".
    ///
    /// # Errors
    /// [`ClientError::Job`] when the job failed, or broke off without a word.
    pub async fn next(&mut self) -> Result<Option<JobEvent>> {
        match self.events.next().await? {
            Some(event) if event.state == "failed" => Err(ClientError::Job(event.message)),
            Some(event) => {
                self.done |= event.state == "done";
                Ok(Some(event))
            }
            None if self.done => Ok(None),
            None => Err(ClientError::Job(
                "the coordinator broke the job off without saying why; look at its log, then start the job again"
                    .to_owned(),
            )),
        }
    }
}

/// What is to be archived, and how. The default leaves everything to the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Archival {
    /// The object, or what the names of the objects begin with.
    pub name: String,
    /// Whether it is what names begin with.
    pub is_prefix: bool,
    /// Only what was put so long ago.
    pub older_than: Duration,
    /// The code; empty: of each stripe in which blocks wait.
    pub code: String,
    /// Name of the encoding scheme; empty for the coordinator's choice.
    pub scheme: String,
    /// Stripes at once; 0 for the default.
    pub parallel: u32,
    /// Bytes of a slice; 0 for the default.
    pub slice_bytes: u32,
    /// Stripes that lack blocks too, whatever they cost.
    pub short: bool,
    /// Objects that are archived with another code too.
    pub change: bool,
}

impl From<Archival> for ArchiveRequest {
    fn from(archival: Archival) -> ArchiveRequest {
        let Archival { name, is_prefix, older_than, code, scheme, parallel, slice_bytes, short, change } =
            archival;
        let older_than_ms = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
        ArchiveRequest { name, is_prefix, older_than_ms, code, scheme, parallel, slice_bytes, short, change }
    }
}

/// How stripes are made smaller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compaction {
    /// Name of the encoding scheme; empty for the coordinator's choice.
    pub scheme: String,
    /// New stripes at once; 0 for the default.
    pub parallel: u32,
    /// Bytes of a slice; 0 for the default.
    pub slice_bytes: u32,
}

impl Client {
    /// Archives an object or many: from replicas to an erasure code.
    pub async fn archive(&self, request: impl Into<ArchiveRequest>) -> Result<JobEvents> {
        let stream = self.call("the archival", request.into(), rpc!(archive)).await?;
        Ok(JobEvents { events: self.events(stream), done: false })
    }

    /// Gives back the room of deleted objects that stripes keep.
    pub async fn compact(&self, compaction: Compaction) -> Result<JobEvents> {
        let Compaction { scheme, parallel, slice_bytes } = compaction;
        let request = CompactRequest { scheme, parallel, slice_bytes };
        let stream = self.call("the compaction", request, rpc!(compact)).await?;
        Ok(JobEvents { events: self.events(stream), done: false })
    }

    /// Repairs a block, or all blocks of a node.
    pub async fn repair(&self, request: RepairRequest) -> Result<JobEvents> {
        let stream = self.call("the repair", request, rpc!(repair)).await?;
        Ok(JobEvents { events: self.events(stream), done: false })
    }

    /// The catalog, as `catalog restore` reads it.
    pub async fn backup_catalog(&self) -> Result<CatalogChunks> {
        let stream = self.call_again("the backup", Empty {}, rpc!(backup_catalog)).await?;
        Ok(self.events(stream))
    }

    /// Has a node read all it stores and check it.
    pub async fn scrub(&self, node: &NodeInfo) -> Result<Events<ScrubEvent>> {
        let mut client = connect::node(model::NodeId(node.node), &node.control_addr).await?;
        let address = node.control_addr.clone();
        let answer = client.scrub(ScrubRequest {}).await;
        let stream = answer.map_err(|status| ClientError::from_status(&status, &address))?.into_inner();
        Ok(Events { stream, address })
    }

    /// Has the coordinator compare what a node has with what is placed there. An error: it was not compared.
    pub async fn compare_node(&self, node: u32) -> Result<CompareNodeReply> {
        let request = CompareNodeRequest { node };
        // No bound here: the coordinator's calls to the node have theirs, and end when it is gone.
        self.call_for_long(request, rpc!(compare_node)).await
    }

    fn events<T>(&self, stream: Streaming<T>) -> Events<T> {
        Events { stream, address: self.address.clone() }
    }
}
