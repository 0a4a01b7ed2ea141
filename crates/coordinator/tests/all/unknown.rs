//! Copies of which the catalog knows nothing: they stay, are listed, and go by an operator's word only.

use crate::support::world::Stored;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, register};
use tonic::Code;
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

async fn list(cluster: &mut Cluster, node: u32) -> proto::ListUnknownReply {
    cluster.client.list_unknown(proto::ListUnknownRequest { node }).await.unwrap().into_inner()
}

async fn let_go(
    cluster: &mut Cluster,
    copies: &[proto::CopyName],
) -> Result<proto::LetUnknownGoReply, tonic::Status> {
    let request = proto::LetUnknownGoRequest { copies: copies.to_vec() };
    cluster.client.let_unknown_go(request).await.map(tonic::Response::into_inner)
}

fn name(node: u32, block: &[u8], generation: u64) -> proto::CopyName {
    proto::CopyName { node, block: block.to_vec(), generation }
}

/// A copy of an object that was deleted, as its folder would have it if that was set back.
async fn deleted(cluster: &mut Cluster) -> (u32, Vec<u8>, Stored, u64) {
    let version = cluster.put("object", b"bytes").await.unwrap().version;
    let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let copy = cluster.world.stored(block.nodes[0], &block.block).unwrap();
    cluster.delete("object").await.unwrap();
    cluster.until("it goes", async |c| c.world.copies().is_empty()).await;
    cluster.until("nothing waits", async |c| c.status().await.garbage == 0).await;
    (block.nodes[0], block.block, copy, version)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_copy_is_listed_and_goes_once_an_operator_names_it() {
    let mut cluster = Cluster::new(4, HASTY).await;
    let (node, block, copy, version) = deleted(&mut cluster).await;
    let generation = copy.generation;
    cluster.world.store(node, &block, copy);
    register(&mut cluster.client, &cluster.world, node).await.unwrap();
    cluster.until("it is told", async |c| c.status().await.unknown_copies == 1).await;
    for of in [0, node] {
        let told = list(&mut cluster, of).await;
        assert_eq!((told.copies.len(), told.others, told.unasked.len()), (1, 0, 0));
        let unknown = told.copies[0].clone();
        assert_eq!(unknown.copy, Some(name(node, &block, generation)));
        let object = unknown.object.unwrap();
        assert_eq!((object.name.as_str(), object.version, unknown.stored_bytes), ("object", version, 5));
        assert_eq!((unknown.unread.as_str(), told.kept_because.as_str()), ("", ""));
    }
    let another = 1 + node % 4;
    assert_eq!(list(&mut cluster, another).await.copies, []);

    let named = [name(node, &block, generation)];
    assert_eq!(let_go(&mut cluster, &named).await.unwrap().noted, 1);
    cluster.until("it goes", async |c| c.world.copies().is_empty()).await;
    cluster.until("nothing is unknown", async |c| c.status().await.unknown_copies == 0).await;
    cluster.until("nothing waits", async |c| c.status().await.garbage == 0).await;
    let again = let_go(&mut cluster, &named).await.unwrap();
    assert_eq!((again.noted, again.refused), (0, named.to_vec()), "it is not there any more");
    assert_eq!(list(&mut cluster, 0).await.copies, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_unknown_copies_can_be_named() {
    let mut cluster = Cluster::new(4, HASTY).await;
    let (node, strange, copy, _) = deleted(&mut cluster).await;
    let generation = copy.generation;
    cluster.put("kept", b"other bytes").await.unwrap();
    let block = cluster.lookup("kept").await.unwrap().blocks[0].clone();
    let counted = cluster.world.stored(block.nodes[0], &block.block).unwrap();
    cluster.world.store(node, &strange, copy);
    // Another generation of a block that the catalog knows is no unknown copy either.
    let named = [
        name(block.nodes[0], &block.block, counted.generation),
        name(block.nodes[0], &block.block, counted.generation + 7),
        name(node, &strange, generation),
    ];
    let gone = let_go(&mut cluster, &named).await.unwrap();
    assert_eq!(gone.noted, 1);
    assert_eq!(gone.refused.len(), 2);
    assert!(gone.refused.iter().all(|copy| copy.block == block.block));
    cluster.until("it goes", async |c| c.world.stored(node, &strange).is_none()).await;
    assert_eq!(cluster.world.copies().len(), 3);
    assert_eq!(cluster.get("kept").await.unwrap().0, b"other bytes");

    assert_eq!(let_go(&mut cluster, &[]).await.unwrap_err().code(), Code::InvalidArgument);
    let nowhere = let_go(&mut cluster, &[name(77, &strange, 1)]).await.unwrap_err();
    assert_eq!(nowhere.code(), Code::NotFound, "{nowhere:?}");
    let request = proto::ListUnknownRequest { node: 77 };
    assert_eq!(cluster.client.list_unknown(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_of_a_node_that_is_away() {
    let mut cluster = Cluster::new(4, HASTY).await;
    let (node, block, copy, _) = deleted(&mut cluster).await;
    let generation = copy.generation;
    cluster.world.store(node, &block, copy);
    cluster.kill(node).await;
    let told = list(&mut cluster, 0).await;
    assert_eq!(told.copies, []);
    assert_eq!(told.unasked.iter().map(|unasked| unasked.node).collect::<Vec<_>>(), [node]);
    assert!(told.unasked[0].why.contains("away"), "{told:?}");
    // It may be named all the same, and goes when its node is back.
    assert_eq!(let_go(&mut cluster, &[name(node, &block, generation)]).await.unwrap().noted, 1);
    cluster.collect().await;
    assert!(cluster.world.stored(node, &block).is_some());
    cluster.world.revive(node);
    cluster.until("it goes", async |c| c.world.stored(node, &block).is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn none_ever_appears_while_nothing_was_set_back_or_damaged() {
    let mut cluster = Cluster::new(6, Settings { garbage_grace_ms: 0, ..HASTY }).await;
    for round in 0..8 {
        cluster.put("object", &bytes(round, 4 * BLOCK_BYTES as usize)).await.unwrap();
        match round % 4 {
            1 => _ = cluster.archive("object", "rs-4+2").await.unwrap(),
            3 => cluster.delete("object").await.unwrap(),
            _ => {}
        }
        // Copies are written and deleted meanwhile.
        let told = list(&mut cluster, 0).await;
        assert_eq!((told.copies, told.others), (Vec::new(), 0), "round {round}");
    }
}
