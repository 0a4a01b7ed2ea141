//! The catalog's calls and the operator's: thin, typed, none moves block data.

use crate::connect::Client;
use crate::error::{ClientError, Result};
use model::NodeId;
use tokio_stream::StreamExt;
use wire::proto::{
    AuditRequest, ClusterStatus, Empty, ExplainReply, LinkTable, ListObjectsRequest, LookupRequest,
    ObjectInfo, RecommissionRequest, RecoverReply, RepairRequest, TaskControl, TaskStatus, Throttle,
};

impl Client {
    /// An object, with its blocks if `with_blocks`. [`ClientError::NotFound`] if there is none of that name.
    pub async fn lookup(&self, name: &str, with_blocks: bool) -> Result<ObjectInfo> {
        let request = LookupRequest { name: name.to_owned(), with_blocks };
        self.call("the lookup", self.coordinator.clone().lookup(request)).await
    }

    /// The objects whose names begin with `prefix`, in the order of their names, without their blocks.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>> {
        let request = ListObjectsRequest { prefix: prefix.to_owned() };
        let mut stream = self.call("the listing", self.coordinator.clone().list_objects(request)).await?;
        let mut objects = Vec::new();
        while let Some(object) = stream.next().await {
            objects.push(object.map_err(|s| ClientError::from_status(&s, &self.address))?);
        }
        Ok(objects)
    }

    /// Removes an object. [`ClientError::NotFound`] if there is none of that name.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let request = LookupRequest { name: name.to_owned(), with_blocks: false };
        self.call("the removal", self.coordinator.clone().delete(request)).await.map(|_| ())
    }

    /// What a repair would do, as text, DOT and JSON; nothing is started.
    pub async fn explain(&self, request: RepairRequest) -> Result<ExplainReply> {
        self.call("the explanation", self.coordinator.clone().explain(request)).await
    }

    /// Lets a decommissioned node hold blocks again.
    pub async fn recommission(&self, node: NodeId) -> Result<()> {
        let request = RecommissionRequest { node: node.0 };
        self.call("the recommissioning", self.coordinator.clone().recommission(request)).await.map(|_| ())
    }

    /// The catalog's history is taken as it is: what became superfluous may go again.
    pub async fn end_safe_mode(&self) -> Result<()> {
        let mut coordinator = self.coordinator.clone();
        self.call("the end of safe mode", coordinator.end_safe_mode(Empty {})).await.map(|_| ())
    }

    /// Nodes, counts, tasks.
    pub async fn status(&self) -> Result<ClusterStatus> {
        self.call("the status", self.coordinator.clone().get_status(Empty {})).await
    }

    /// Pauses, resumes, stops a background task, or asks for its status.
    pub async fn control_task(&self, control: TaskControl) -> Result<TaskStatus> {
        self.call("the task's control", self.coordinator.clone().control_task(control)).await
    }

    /// Limits every node, bytes per second in each direction, until it is set again; 0 lifts the limit.
    pub async fn throttle(&self, egress_bytes_per_s: u64, ingress_bytes_per_s: u64) -> Result<()> {
        let request = Throttle { egress_bytes_per_s, ingress_bytes_per_s, version: 0 };
        self.call("the throttle", self.coordinator.clone().set_throttle(request)).await.map(|_| ())
    }

    /// The last repairs, the latest last, each as JSON.
    pub async fn audit(&self, last: u32) -> Result<Vec<String>> {
        let request = AuditRequest { last };
        Ok(self.call("the record of repairs", self.coordinator.clone().get_audit(request)).await?.entries)
    }

    /// What the coordinator knows of the links, as JSON.
    pub async fn links(&self) -> Result<String> {
        Ok(self.call("the table of links", self.coordinator.clone().get_links(Empty {})).await?.json)
    }

    /// Replaces it; returns it as it was understood.
    pub async fn set_links(&self, json: String) -> Result<String> {
        let request = LinkTable { json };
        Ok(self.call("the table of links", self.coordinator.clone().set_links(request)).await?.json)
    }

    /// Fills an empty catalog from what the registered nodes store. Takes as long as reading all their sidecars.
    pub async fn recover_catalog(&self) -> Result<RecoverReply> {
        let reply = self.coordinator.clone().recover_catalog(Empty {}).await;
        reply.map(|r| r.into_inner()).map_err(|s| ClientError::from_status(&s, &self.address))
    }
}
