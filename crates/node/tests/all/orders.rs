//! Orders to delete, and what a node takes: both by the store, the start of it, and the room that there is.

use crate::rig::{REQUESTOR, Rig, STORED, suspect};
use flow::Scheme;
use model::{BlockId, Cause, ClusterId};
use node::store::{CopyId, Store};
use tonic::Code;
use wire::proto;
use wire::proto::node_client::NodeClient;

const CLUSTER: ClusterId = ClusterId(77);

/// A change of a term.
fn change(term: u64, change: u64) -> proto::Stamp {
    proto::Stamp { term, word: 7, change }
}

fn order(store: &Store, block: BlockId) -> proto::DeleteBlocksRequest {
    proto::DeleteBlocksRequest {
        cluster: CLUSTER.to_vec(),
        blocks: vec![proto::BlockRef { block: block.to_vec(), generation: STORED, ..Default::default() }],
        store: store.identity().store.to_vec(),
        incarnation: store.incarnation().0,
        by: Some(change(2, 5)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_for_another_start_is_refused() {
    let rig = Rig::new("rs-2+1", &[5_000; 2], 32 * 1024).await;
    let (store, block) = (rig.nodes[0].flows().store.clone(), rig.ids[0]);
    store.welcomed(CLUSTER).unwrap();
    store.hear(change(2, 1).into()).unwrap();
    let addr = format!("http://{}", rig.nodes[0].control_addr());
    let mut client = NodeClient::connect(addr).await.unwrap();
    let right = order(&store, block);
    for wrong in [
        proto::DeleteBlocksRequest { incarnation: right.incarnation ^ 1, ..right.clone() },
        proto::DeleteBlocksRequest { incarnation: 0, ..right.clone() },
        proto::DeleteBlocksRequest { store: vec![1; 16], ..right.clone() },
        proto::DeleteBlocksRequest { store: vec![], ..right.clone() },
        proto::DeleteBlocksRequest { cluster: vec![1; 16], ..right.clone() },
    ] {
        let refused = client.delete_blocks(wrong).await.unwrap_err();
        let code = refused.code();
        assert!(matches!(code, Code::FailedPrecondition | Code::PermissionDenied), "{refused:?}");
        assert!(store.contains(block, STORED).unwrap());
    }
    let status = client.get_status(proto::Empty {}).await.unwrap().into_inner();
    assert_eq!((&status.store, status.incarnation), (&right.store, right.incarnation));
    let reply = client.delete_blocks(right.clone()).await.unwrap().into_inner();
    assert_eq!((reply.deleted, reply.refused.len()), (1, 0));
    assert!(!store.contains(block, STORED).unwrap());
    assert_eq!(client.delete_blocks(right).await.unwrap().into_inner().deleted, 0, "it is gone already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_an_older_term_and_those_that_were_called_off_are_refused() {
    let rig = Rig::new("rs-2+1", &[5_000; 2], 32 * 1024).await;
    let (store, block) = (rig.nodes[0].flows().store.clone(), rig.ids[0]);
    store.welcomed(CLUSTER).unwrap();
    let addr = format!("http://{}", rig.nodes[0].control_addr());
    let mut client = NodeClient::connect(addr).await.unwrap();
    let right = order(&store, block);
    // The node has heard of the third term: whoever still speaks for the second one is refused.
    store.hear(change(3, 1).into()).unwrap();
    let refused = client.delete_blocks(right.clone()).await.unwrap_err();
    assert!(
        refused.code() == Code::FailedPrecondition && refused.message().contains("is obeyed"),
        "{refused:?}"
    );
    let other_word =
        proto::DeleteBlocksRequest { by: Some(proto::Stamp { word: 8, ..change(3, 9) }), ..right.clone() };
    assert_eq!(client.delete_blocks(other_word).await.unwrap_err().code(), Code::FailedPrecondition);
    let later = proto::DeleteBlocksRequest { by: Some(change(4, 1)), ..right.clone() };
    let refused = client.delete_blocks(later).await.unwrap_err();
    assert!(
        refused.code() == Code::FailedPrecondition && refused.message().contains("registers first"),
        "{refused:?}"
    );
    assert_eq!(store.heard(), change(3, 1).into(), "an order brings no new term");
    // An order that is late: its copy was asked for again meanwhile.
    let late = proto::DeleteBlocksRequest { by: Some(change(3, 5)), ..right };
    let look = proto::CheckBlocksRequest {
        blocks: late.blocks.clone(),
        verify: true,
        fence: Some(change(3, 5)),
        ..Default::default()
    };
    assert!(client.check_blocks(look).await.unwrap().into_inner().blocks[0].there);
    let reply = client.delete_blocks(late.clone()).await.unwrap().into_inner();
    assert_eq!((reply.deleted, reply.refused.len()), (0, 1), "{reply:?}");
    assert!(store.contains(block, STORED).unwrap());
    let new = proto::DeleteBlocksRequest { by: Some(change(3, 6)), ..late };
    assert_eq!(client.delete_blocks(new).await.unwrap().into_inner().deleted, 1);
}

/// The copy failed twice before, by a passing fault of the disk. It counts again as soon as somebody has it read whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_reads_a_condemned_copy_clears_it() {
    let rig = Rig::new("rs-2+1", &[300_000; 2], 32 * 1024).await;
    let (flows, block) = (rig.nodes[0].flows(), rig.ids[0]);
    flows.store.welcomed(CLUSTER).unwrap();
    let copy = CopyId { block, generation: STORED };
    flows.suspects.condemn(copy);
    let addr = format!("http://{}", rig.nodes[0].control_addr());
    let mut client = NodeClient::connect(addr).await.unwrap();
    let blocks = order(&flows.store, block).blocks;
    let mut check = async |verify| {
        let look = proto::CheckBlocksRequest { blocks: blocks.clone(), verify, ..Default::default() };
        client.check_blocks(look).await.unwrap().into_inner().blocks.remove(0)
    };
    let unread = check(false).await;
    assert!(unread.damaged && !unread.there, "nobody has read it");
    let read = check(true).await;
    assert!(read.there && !read.damaged);
    assert!(flows.suspects.is_clear(copy));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_when_the_flow_is_prepared() {
    let rig = Rig::new("rs-2+1", &[300_000; 2], 32 * 1024).await;
    let store = rig.requestor.flows().store.clone();
    // Others are about to fill the disk: nothing of it is written yet.
    let mut others = Vec::new();
    while store.free_bytes().unwrap() > 200_000 {
        let free = store.free_bytes().unwrap();
        let most = free - free / 200 - 8_192;
        others.push(store.writer(BlockId(others.len() as u128), 1, most).unwrap());
    }
    let fault = rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap_err();
    assert_eq!((fault.cause, suspect(&fault)), (Cause::NoSpace, Some((REQUESTOR, REQUESTOR))), "{fault}");
    assert!(fault.detail.contains("can still be taken"), "{fault}");
    drop(others);
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
    assert!(rig.repaired(0));
}
