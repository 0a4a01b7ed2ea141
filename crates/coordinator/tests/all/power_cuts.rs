//! The coordinator's power is cut after every single durable call of put, archive, repair and delete. What was
//! acknowledged must be there afterwards, what was not must be there as a whole or not at all, and nothing may be left
//! behind on the nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::support::world::World;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes};
use disk::{CrashDisk, PowerSwitch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Status;
use wire::proto;

const NODES: u32 = 6;

const SETTINGS: Settings = Settings { dead_after_ms: 60_000, garbage_grace_ms: 20, put_lease_ms: 60_000 };

/// Of an object; `None` if it is not there.
type Contents = Option<Vec<u8>>;

/// What clients know: for each name the contents that were acknowledged last, and those that may have come since.
#[derive(Default)]
struct Known {
    objects: BTreeMap<&'static str, (Contents, Option<Contents>)>,
}

impl Known {
    async fn put(
        &mut self,
        cluster: &mut Cluster,
        name: &'static str,
        contents: Vec<u8>,
    ) -> Result<(), Status> {
        self.objects.entry(name).or_default().1 = Some(Some(contents.clone()));
        cluster.put(name, &contents).await?;
        self.objects.insert(name, (Some(contents), None));
        Ok(())
    }

    async fn delete(&mut self, cluster: &mut Cluster, name: &'static str) -> Result<(), Status> {
        self.objects.entry(name).or_default().1 = Some(None);
        cluster.delete(name).await?;
        self.objects.insert(name, (None, None));
        Ok(())
    }

    /// What is there is what was acknowledged, or what was under way.
    async fn check(&self, cluster: &mut Cluster, when: &str) -> Vec<&'static str> {
        let mut there = Vec::new();
        for (&name, (acknowledged, under_way)) in &self.objects {
            let found = match cluster.get(name).await {
                Ok((contents, _)) => Some(contents),
                Err(status) if status.code() == tonic::Code::NotFound => None,
                Err(status) => panic!("{when}: {name} cannot be read: {status:?}"),
            };
            let allowed = found == *acknowledged || under_way.as_ref() == Some(&found);
            assert!(allowed, "{when}: {name} is neither what was acknowledged nor what was under way");
            if found.is_some() {
                there.push(name);
            }
        }
        there
    }
}

/// Everything that changes the catalog, once.
async fn life(cluster: &mut Cluster, known: &mut Known) -> Result<(), Status> {
    known.put(cluster, "a", bytes(1, 2 * BLOCK_BYTES as usize + 9)).await?;
    known.put(cluster, "b", bytes(2, 10)).await?;
    known.put(cluster, "b", bytes(3, 20)).await?;
    cluster.archive("a", "rs-3+2").await?;
    let lost = cluster.lookup("a").await?.blocks[0].nodes[0];
    cluster.world.kill(lost);
    // Only a coordinator that never heard of the node takes it for dead at once.
    cluster.again().await?;
    let request = proto::RepairRequest { object: "a".to_owned(), index: 0, ..Default::default() };
    cluster.repair(request).await?;
    known.delete(cluster, "b").await?;
    known.delete(cluster, "a").await?;
    known.put(cluster, "a", bytes(4, 5)).await?;
    Ok(())
}

/// Blocks that wait in stripes, and are encoded with those of others, deleted before and after.
async fn gathered_life(cluster: &mut Cluster, known: &mut Known) -> Result<(), Status> {
    let [policy, code, spread] = ["random", "rs-2+2", "two-racks"].map(str::to_owned);
    let terms = proto::GatherTerms { policy, code, spread, rack_capacity: 2, target_racks: 0 };
    let bucket = proto::Bucket { name: "b".to_owned(), terms: Some(terms), archive_after_ms: 0 };
    cluster.client.set_bucket(bucket).await?;
    for (name, seed) in [("b/1", 1), ("b/2", 2), ("b/3", 3), ("b/4", 4), ("b/5", 5)] {
        known.put(cluster, name, bytes(seed, BLOCK_BYTES as usize)).await?;
    }
    known.delete(cluster, "b/3").await?;
    let everything = proto::ArchiveRequest {
        name: "b/".to_owned(),
        is_prefix: true,
        slice_bytes: 1024,
        ..Default::default()
    };
    cluster.archive_as(everything.clone()).await?;
    known.delete(cluster, "b/1").await?;
    known.put(cluster, "b/4", bytes(6, BLOCK_BYTES as usize - 1)).await?;
    cluster.archive_as(proto::ArchiveRequest { short: true, ..everything }).await?;
    known.delete(cluster, "b/2").await?;
    Ok(())
}

/// Stripes take the place of others: for what was deleted, and for another code.
async fn recoded_life(cluster: &mut Cluster, known: &mut Known) -> Result<(), Status> {
    for (name, seed) in [("b/1", 1), ("b/2", 2), ("b/3", 3), ("b/4", 4), ("b/5", 5), ("b/6", 6)] {
        known.put(cluster, name, bytes(seed, BLOCK_BYTES as usize - usize::from(seed))).await?;
    }
    let everything = proto::ArchiveRequest {
        name: "b/".to_owned(),
        is_prefix: true,
        code: "rs-3+2".to_owned(),
        slice_bytes: 1024,
        short: true,
        ..Default::default()
    };
    cluster.archive_as(everything.clone()).await?;
    known.delete(cluster, "b/2").await?;
    known.delete(cluster, "b/3").await?;
    known.delete(cluster, "b/4").await?;
    known.delete(cluster, "b/5").await?;
    cluster.compact().await?;
    let change = proto::ArchiveRequest { code: "rs-2+2".to_owned(), change: true, ..everything };
    cluster.archive_as(proto::ArchiveRequest { name: "b/1".to_owned(), ..change.clone() }).await?;
    known.put(cluster, "b/7", bytes(7, BLOCK_BYTES as usize)).await?;
    cluster.archive_as(proto::ArchiveRequest { code: "rs-4+1".to_owned(), ..change }).await?;
    known.delete(cluster, "b/6").await?;
    Ok(())
}

/// Members of a stripe that lie two in a rack move once there are other racks.
async fn moved_life(cluster: &mut Cluster, known: &mut Known) -> Result<(), Status> {
    const LATER: [u32; 2] = [1, 6];
    LATER.iter().for_each(|&node| cluster.world.kill(node));
    cluster.again().await?;
    known.put(cluster, "a", bytes(1, 2 * BLOCK_BYTES as usize)).await?;
    cluster.archive("a", "rs-2+1").await?;
    for node in LATER {
        cluster.world.revive(node);
        cluster.join(node).await?;
    }
    let lie_apart = |cluster: &Cluster| {
        let copies = cluster.world.copies();
        let racks: BTreeSet<u32> = copies.iter().map(|(node, _)| node / 2).collect();
        (racks.len(), copies.len()) == (3, 3)
    };
    let waits = Instant::now();
    while !lie_apart(cluster) {
        if cluster.power.is_cut() {
            return Err(Status::unavailable("the power is cut"));
        }
        assert!(waits.elapsed() < Duration::from_secs(60), "they stay: {:?}", cluster.world.copies());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    known.put(cluster, "b", bytes(2, 10)).await?;
    known.delete(cluster, "a").await?;
    Ok(())
}

/// What is done until the power is cut.
#[derive(Clone, Copy)]
enum Story {
    Whole,
    Gathered,
    Recoded,
    Moved,
}

async fn cut_everywhere(story: Story, seed: Option<u64>, first: u64, step: usize) {
    let world = World::start(NODES).await;
    for cut in (first..).step_by(step) {
        world.wipe();
        let power = PowerSwitch::new();
        if let Some(seed) = seed {
            power.survive_at_random(seed + cut);
        }
        let disk = CrashDisk::new(&power);
        // The catalog itself may be cut off while it is made.
        power.cut_after(cut);
        let mut known = Known::default();
        let started = Cluster::on(Arc::clone(&power), disk.clone(), Arc::clone(&world), SETTINGS).await;
        let mut cluster = match started {
            Ok(mut cluster) => {
                let outcome = match story {
                    Story::Whole => life(&mut cluster, &mut known).await,
                    Story::Gathered => gathered_life(&mut cluster, &mut known).await,
                    Story::Recoded => recoded_life(&mut cluster, &mut known).await,
                    Story::Moved => moved_life(&mut cluster, &mut known).await,
                };
                if outcome.is_ok() {
                    assert!(cut > 100, "a whole life takes more durable calls than {cut}");
                    known.check(&mut cluster, "undisturbed").await;
                    return;
                }
                assert!(power.is_cut(), "cut {cut}: {outcome:?}");
                cluster.restart().await
            }
            Err(error) => {
                assert!(power.is_cut(), "cut {cut}: {error}");
                power.restart();
                let reopened = Cluster::on(power, disk.reopen(), Arc::clone(&world), SETTINGS).await;
                reopened.unwrap_or_else(|error| panic!("cut {cut}: {error}"))
            }
        };
        let when = format!("cut {cut}");
        known.check(&mut cluster, &when).await;
        let status = cluster.status().await;
        assert_eq!(status.unrecoverable_blocks, 0, "{when}");
        // All nodes are back; when the garbage is gone, only what the catalog refers to is left.
        for node in 1..=NODES {
            if !world.lives(node) {
                world.revive(node);
                cluster.join(node).await.unwrap();
            }
        }
        cluster.abort_puts().await;
        cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
        let there = known.check(&mut cluster, &when).await;
        cluster.nothing_leaked(&there).await;
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_only_what_was_synced_survives() {
    cut_everywhere(Story::Whole, None, 0, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_when_any_part_of_the_rest_survives() {
    cut_everywhere(Story::Whole, Some(0x5712_1e11), 1, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_of_blocks_that_wait_in_stripes_and_share_them() {
    cut_everywhere(Story::Gathered, None, 0, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_when_stripes_take_the_place_of_others() {
    cut_everywhere(Story::Recoded, None, 0, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_when_members_of_stripes_move() {
    cut_everywhere(Story::Moved, None, 0, 2).await;
}
