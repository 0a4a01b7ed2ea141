//! A code of local groups end to end: a block is repaired from its group, and from whatever suffices when that is broken.

use crate::archive::stripes;
use crate::rig::{BLOCK, Rig, content};
use model::BlockId;
use std::collections::BTreeSet;
use wire::proto::{JobEvent, RepairRequest};

const CODE: &str = "lrc-4+2+2";

/// Repairs a block and throws the copy away; who sent how many bytes.
async fn senders(rig: &Rig, block: BlockId, scheme: &str) -> Vec<(u32, u64)> {
    let scheme = scheme.to_owned();
    let request = RepairRequest { block: block.to_vec(), scheme, discard: true, ..Default::default() };
    let events = rig.repair(request).await.unwrap();
    let flows: Vec<&JobEvent> = events.iter().filter(|event| event.flow.is_some()).collect();
    let [event] = flows[..] else { panic!("one flow was wanted: {events:?}") };
    event.flow.as_ref().unwrap().links.iter().map(|link| (link.from, link.bytes)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_block_is_repaired_from_its_group() {
    let mut rig = Rig::new(10).await;
    // Of the second stripe only the first group has data: the other group's parity is not stored either.
    let bytes = content(11, 6 * BLOCK - 12_345);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", CODE).await.unwrap();
    rig.no_garbage().await;
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    let stored: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!(stored, 8 + (2 + 1 + 2));

    let info = rig.client.lookup("a", true).await.unwrap();
    let stripes = stripes(&info);
    let first = stripes[&info.blocks[0].stripe.as_ref().unwrap().stripe].clone();
    let short = stripes[&info.blocks[4].stripe.as_ref().unwrap().stripe].clone();
    let nodes = |members: &[usize]| members.iter().map(|&m| first[m].1).collect::<BTreeSet<u32>>();

    // A data block and a local parity, by a star and by a chain: nobody outside the group takes part.
    for (lost, group) in [(0, [1, 4]), (3, [2, 5]), (5, [2, 3])] {
        rig.lose([first[lost].1]).await;
        for scheme in ["conventional", "pipeline"] {
            let sent = senders(&rig, first[lost].0, scheme).await;
            let from: BTreeSet<u32> = sent.iter().map(|&(node, _)| node).collect();
            assert_eq!(from, nodes(&group), "{lost} by {scheme}");
            assert!(sent.iter().all(|&(_, bytes)| bytes == BLOCK as u64), "{sent:?}");
        }
        assert!(rig.get("a").await.unwrap() == bytes);
        assert_eq!(rig.range("a", "7-99").await.unwrap(), &bytes[7..=99]);
        rig.bring_back([first[lost].1]).await;
    }

    // The group is broken: what suffices has four blocks, a global parity among them.
    rig.lose([first[0].1, first[1].1, first[6].1]).await;
    let from = senders(&rig, first[0].0, "conventional").await;
    assert_eq!((from.len(), from.iter().any(|&(node, _)| node == first[7].1)), (4, true), "{from:?}");
    assert!(rig.get("a").await.unwrap() == bytes);
    rig.bring_back([first[0].1, first[1].1, first[6].1]).await;

    // In the short stripe the other group is known to be zero.
    rig.lose([short[0].1, short[2].1]).await;
    let from = senders(&rig, short[0].0, "conventional").await;
    assert_eq!(from.len(), 2, "{from:?}");
    assert!(rig.get("a").await.unwrap() == bytes);
    rig.bring_back([short[0].1, short[2].1]).await;

    // A whole node, for good.
    let gone = first[0].1;
    rig.lose([gone]).await;
    rig.repair_node(gone).await.unwrap();
    assert_eq!(rig.status().await.missing_blocks, 0);
    assert!(rig.get("a").await.unwrap() == bytes);
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn which_blocks_are_lost_counts_and_not_how_many() {
    let mut rig = Rig::new(8).await;
    let bytes = content(12, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", CODE).await.unwrap();
    rig.no_garbage().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let members = stripes(&info).into_values().next().unwrap();
    let lost = |members_lost: &[usize]| members_lost.iter().map(|&m| members[m].1).collect::<Vec<u32>>();
    // Four losses over both groups are survived, four of one group and the global parities are not.
    rig.lose(lost(&[0, 2, 4, 6])).await;
    assert!(rig.get("a").await.unwrap() == bytes);
    assert_eq!((rig.status().await.missing_blocks, rig.status().await.unrecoverable_blocks), (4, 0));
    rig.bring_back(lost(&[2, 6])).await;
    rig.lose(lost(&[1, 7])).await;
    assert_eq!((rig.status().await.missing_blocks, rig.status().await.unrecoverable_blocks), (4, 4));
    let error = rig.get("a").await.unwrap_err().to_string();
    assert!(error.contains("cannot be recovered now: 4 of the 5"), "{error}");
    rig.bring_back(lost(&[7])).await;
    assert!(rig.get("a").await.unwrap() == bytes);
}
