//! Blocks move to nodes that are emptier than the others, and no more of them than that takes.

use crate::support::world::World;
use crate::support::{Cluster, Settings, bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use wire::proto;

const SETTINGS: Settings = Settings { dead_after_ms: 60_000, garbage_grace_ms: 50, put_lease_ms: 60_000 };

const BLOCK: u64 = 100_000;

/// Bytes that a node can store: a tenth of it is five blocks.
const CAPACITY: u64 = 50 * BLOCK;

/// Copies on each node, once they lie evenly: of 24 replicated blocks, and of 12 stripes of three.
const MEAN: usize = (24 * 3 + 12 * 3) / 6;

/// Copies that are placed on each node, parities too.
async fn placed(cluster: &mut Cluster, names: &[String]) -> BTreeMap<u32, usize> {
    let mut copies = BTreeSet::new();
    for name in names {
        for block in cluster.lookup(name).await.unwrap().blocks {
            let members = block.stripe.into_iter().flat_map(|stripe| stripe.members);
            copies.extend(members.map(|member| (member.node, member.block)));
            copies.extend(block.nodes.iter().map(|node| (*node, block.block.clone())));
        }
    }
    let mut placed = BTreeMap::new();
    copies.iter().for_each(|(node, _)| *placed.entry(*node).or_default() += 1);
    placed
}

async fn detail(cluster: &mut Cluster) -> String {
    let status = cluster.status().await;
    status.tasks.into_iter().find(|task| task.name == "balance").unwrap().detail
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_node_gets_its_part_and_then_nothing_moves() {
    let world = World::start(6).await;
    // Nodes 5 and 6, a rack of their own, are not there yet.
    world.kill(5);
    world.kill(6);
    let mut cluster = Cluster::balancing(Arc::clone(&world), SETTINGS, 50).await;
    let names: Vec<String> = (0..24).map(|number| format!("object-{number}")).collect();
    for (seed, name) in (0..).zip(&names) {
        cluster.put_with(name, &bytes(seed, 2 * BLOCK as usize), BLOCK, 3).await.unwrap();
    }
    for name in &names[..12] {
        cluster.archive(name, "rs-2+1").await.unwrap();
    }
    cluster.until("surplus replicas go", async |c| c.status().await.garbage == 0).await;
    let before = placed(&mut cluster, &names).await;
    cluster.world.flows();
    assert!(detail(&mut cluster).await.starts_with("waits for"), "nobody tells how much fits");
    world.revive(5);
    world.revive(6);
    cluster.join(5).await.unwrap();
    cluster.join(6).await.unwrap();
    world.hold(CAPACITY);
    // They are brought to within a tenth of what fits, five blocks.
    let names_too = names.clone();
    cluster
        .until("the new ones have their part", async |c| {
            let placed = placed(c, &names_too).await;
            [5, 6].iter().all(|node| placed.get(node).is_some_and(|count| *count >= MEAN - 5))
        })
        .await;
    cluster.until("what moved goes", async |c| c.status().await.garbage == 0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    let (after, moved) = (placed(&mut cluster, &names).await, cluster.world.flows().len());
    assert_eq!(after.values().sum::<usize>(), before.values().sum::<usize>());
    assert!(after[&5] <= MEAN && after[&6] <= MEAN, "{before:?} {after:?}");
    assert_eq!(moved, after[&5] + after[&6], "none moves twice, nor to the others");
    assert_eq!(detail(&mut cluster).await, "");
    for (seed, name) in (0..).zip(&names) {
        assert_eq!(cluster.get(name).await.unwrap().0, bytes(seed, 2 * BLOCK as usize));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_while_it_is_paused() {
    let world = World::start(5).await;
    world.kill(5);
    let mut cluster = Cluster::balancing(Arc::clone(&world), SETTINGS, 50).await;
    for seed in 0..20 {
        cluster.put_with(&format!("object-{seed}"), &bytes(seed, BLOCK as usize), BLOCK, 3).await.unwrap();
    }
    cluster.world.flows();
    cluster.control("balance", "pause").await.unwrap();
    world.revive(5);
    cluster.join(5).await.unwrap();
    world.hold(CAPACITY);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(cluster.world.flows().len(), 0);
    cluster.control("balance", "resume").await.unwrap();
    cluster.until("it goes on", async |c| !c.world.flows().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_while_the_catalogs_history_is_in_doubt() {
    let world = World::start(5).await;
    world.kill(5);
    let mut cluster = Cluster::balancing(Arc::clone(&world), SETTINGS, 50).await;
    for seed in 0..20 {
        cluster.put_with(&format!("object-{seed}"), &bytes(seed, BLOCK as usize), BLOCK, 3).await.unwrap();
    }
    cluster.until("somebody has heard of it", async |c| c.world.last_change() > 20).await;
    cluster.world.flows();
    // The new node knows of changes that the catalog does not have.
    let heard = world.last_heard().unwrap();
    world.hear(5, Some(proto::Stamp { change: heard.change + 1_000, ..heard }));
    world.revive(5);
    world.hold(CAPACITY);
    cluster.join(5).await.unwrap();
    cluster.until("it waits", async |c| detail(c).await.contains("history")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(cluster.world.flows().len(), 0);
    cluster.client.end_safe_mode(proto::Empty {}).await.unwrap();
    cluster.until("it goes on", async |c| !c.world.flows().is_empty()).await;
}
