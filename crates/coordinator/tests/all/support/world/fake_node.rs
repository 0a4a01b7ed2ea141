//! One of the nodes, as daemons serve it.

use super::{World, fingerprint, store};
use model::BlockId;
use std::pin::Pin;
use std::sync::Arc;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use wire::names::{folder_digest, folder_of};
use wire::proto;
use wire::proto::node_server::Node;

/// One of them, as daemons serve it.
pub struct FakeNode {
    pub(super) node: u32,
    pub(super) world: Arc<World>,
}

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn stream<T: Send + 'static>(items: Vec<T>) -> Response<Events<T>> {
    Response::new(Box::pin(tokio_stream::iter(items.into_iter().map(Ok))))
}

impl FakeNode {
    fn alive(&self) -> Result<(), Status> {
        if self.world.is_reached(self.node) { Ok(()) } else { Err(Status::unavailable("dead")) }
    }

    fn is_meant(&self, asked: &[u8], incarnation: u64) -> Result<(), Status> {
        match (asked, incarnation) == (&store(self.node).to_bytes(), self.world.word(self.node)) {
            true => Ok(()),
            false => Err(Status::failed_precondition("another start is meant")),
        }
    }

    fn copies(&self) -> Vec<(BlockId, u64)> {
        let state = self.world.state();
        let own = state.blocks.keys().filter(|(at, ..)| *at == self.node);
        own.map(|(_, block, generation)| (BlockId::from_slice(block).expect("an id"), *generation)).collect()
    }
}

#[tonic::async_trait]
impl Node for FakeNode {
    type RunStagesStream = Events<proto::StageMessage>;
    type DriveStream = Events<proto::DriveEvent>;
    type ListBlocksStream = Events<proto::StoredBlock>;
    type ScrubStream = Events<proto::ScrubEvent>;
    type ReadRecordsStream = Events<proto::RecordsMessage>;
    type ListFoldersStream = Events<proto::StoredBlock>;

    async fn digest_folders(
        &self,
        request: Request<proto::DigestFoldersRequest>,
    ) -> Result<Response<proto::DigestFoldersReply>, Status> {
        self.alive()?;
        let request = request.into_inner();
        self.is_meant(&request.store, request.incarnation)?;
        let copies = self.copies();
        let names = |folder| copies.iter().copied().filter(move |(block, _)| folder_of(*block) == folder);
        let digests = (0..=u8::MAX).map(|folder| folder_digest(names(folder), []).to_vec()).collect();
        Ok(Response::new(proto::DigestFoldersReply { digests }))
    }

    async fn list_folders(
        &self,
        request: Request<proto::ListFoldersRequest>,
    ) -> Result<Response<Self::ListFoldersStream>, Status> {
        self.alive()?;
        let request = request.into_inner();
        self.is_meant(&request.store, request.incarnation)?;
        self.world.state().listed.push((self.node, request.folders.clone()));
        let own = self.copies().into_iter().filter(|(block, _)| request.folders.contains(&folder_of(*block)));
        let listed = own.map(|(block, generation)| proto::StoredBlock {
            block: block.to_vec(),
            generation,
            ..Default::default()
        });
        Ok(stream(listed.collect()))
    }

    async fn run_stages(
        &self,
        _: Request<tonic::Streaming<proto::DriverMessage>>,
    ) -> Result<Response<Self::RunStagesStream>, Status> {
        Err(Status::unimplemented("flows run as a whole here"))
    }

    async fn drive(
        &self,
        request: Request<proto::DriveRequest>,
    ) -> Result<Response<Self::DriveStream>, Status> {
        self.alive()?;
        let plan = request.into_inner().plan.expect("a plan");
        let kind = match self.world.run(&plan, &[], self.node) {
            Ok(result) => proto::drive_event::Kind::Finished(result),
            Err(fault) => proto::drive_event::Kind::Failed(fault.into()),
        };
        Ok(stream(vec![proto::DriveEvent { kind: Some(kind) }]))
    }

    async fn delete_blocks(
        &self,
        request: Request<proto::DeleteBlocksRequest>,
    ) -> Result<Response<proto::DeleteBlocksReply>, Status> {
        self.alive()?;
        let request = request.into_inner();
        self.is_meant(&request.store, request.incarnation)?;
        let mut state = self.world.state();
        assert_eq!(Some(&request.cluster), state.cluster.get(&self.node));
        let mut deleted = 0;
        for wanted in request.blocks {
            let key = (self.node, wanted.block, wanted.generation);
            if state.blocks.remove(&key).is_some() {
                state.corrupt.remove(&key);
                deleted += 1;
            }
        }
        Ok(Response::new(proto::DeleteBlocksReply { deleted, refused: Vec::new() }))
    }

    async fn hold_records(
        &self,
        request: Request<tonic::Streaming<proto::RecordsMessage>>,
    ) -> Result<Response<proto::HeldRecords>, Status> {
        self.alive()?;
        let (mut stream, mut messages) = (request.into_inner(), Vec::new());
        while let Some(message) = stream.message().await? {
            messages.push(message);
        }
        self.alive()?;
        let held = self.world.keep(self.node, messages);
        held.map(Response::new)
            .ok_or_else(|| Status::invalid_argument("the snapshot is not said to be whole"))
    }

    async fn read_records(
        &self,
        _: Request<proto::Empty>,
    ) -> Result<Response<Self::ReadRecordsStream>, Status> {
        self.alive()?;
        let kept = self.world.state().kept.get(&self.node).cloned().unwrap_or_default();
        Ok(stream(kept.messages()))
    }

    async fn check_blocks(
        &self,
        request: Request<proto::CheckBlocksRequest>,
    ) -> Result<Response<proto::CheckBlocksReply>, Status> {
        self.alive()?;
        let request = request.into_inner();
        if !request.store.is_empty() {
            self.is_meant(&request.store, request.incarnation)?;
        }
        let state = self.world.state();
        let check = |wanted: proto::BlockRef| {
            let key = (self.node, wanted.block, wanted.generation);
            let stored = state.blocks.get(&key);
            let damaged = stored.is_some() && state.corrupt.contains(&key);
            let digest = stored.map(|stored| blake3::hash(&stored.bytes).as_bytes().to_vec());
            match digest.filter(|_| !damaged) {
                Some(digest) => proto::CheckedBlock {
                    there: true,
                    digest,
                    damaged,
                    birth: stored.and_then(|stored| stored.write.birth),
                    ..Default::default()
                },
                None => proto::CheckedBlock { damaged, absent: stored.is_none(), ..Default::default() },
            }
        };
        let blocks = request.blocks.into_iter().map(check).collect();
        Ok(Response::new(proto::CheckBlocksReply { blocks }))
    }

    async fn list_blocks(
        &self,
        _: Request<proto::ListBlocksRequest>,
    ) -> Result<Response<Self::ListBlocksStream>, Status> {
        self.alive()?;
        let state = self.world.state();
        let own = state.blocks.iter().filter(|((at, ..), _)| *at == self.node);
        let listed = own.map(|((_, block, _), stored)| proto::StoredBlock {
            block: block.clone(),
            generation: stored.generation,
            stored_bytes: stored.bytes.len() as u64,
            digest: blake3::hash(&stored.bytes).as_bytes().to_vec(),
            fingerprint: fingerprint(&stored.bytes).as_bytes().to_vec(),
            alpha: 1,
            object: stored.write.object.clone(),
            stripe: stored.write.stripe.clone(),
            birth: stored.write.birth,
            ..Default::default()
        });
        Ok(stream(listed.collect()))
    }

    async fn get_status(&self, _: Request<proto::Empty>) -> Result<Response<proto::NodeStatus>, Status> {
        self.alive()?;
        Ok(Response::new(self.world.status(self.node)))
    }

    async fn identify(
        &self,
        request: Request<proto::Challenge>,
    ) -> Result<Response<proto::Identified>, Status> {
        self.alive()?;
        tokio::time::sleep(self.world.delay_of(self.node)).await;
        let challenge = wire::codec::mac::challenge(request.get_ref()).expect("a challenge");
        Ok(Response::new(self.world.identify(self.node, challenge).into()))
    }

    async fn obey(&self, request: Request<proto::NodeSettings>) -> Result<Response<proto::Empty>, Status> {
        self.alive()?;
        let throttle = request.into_inner().throttle.unwrap_or_default();
        self.world.state().throttles.insert(self.node, throttle.egress_bytes_per_s);
        Ok(Response::new(proto::Empty {}))
    }

    async fn control_task(
        &self,
        request: Request<proto::TaskControl>,
    ) -> Result<Response<proto::TaskStatus>, Status> {
        let name = format!("{} of node {}", request.into_inner().name, self.node);
        Ok(Response::new(proto::TaskStatus { name, ..Default::default() }))
    }

    async fn scrub(&self, _: Request<proto::ScrubRequest>) -> Result<Response<Self::ScrubStream>, Status> {
        Ok(stream(Vec::new()))
    }
}
