//! No sync is superfluous: a cluster whose disks lie about one of them loses something that a client was promised.

use crate::power_cut::{STEPS, Step, Trial, When, outcomes};
use crate::rig::{BLOCK, Rig, Settings, content, eventually};
use disk::{CrashDisk, PowerSwitch, SyncPoint};
use std::collections::BTreeSet;

/// Where a missing sync shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    /// When the power goes after a step that was acknowledged.
    AfterAStep,
    /// When the catalog is lost after a delete and rebuilt from the nodes: while there is a catalog, it has copies that came
    /// back deleted again.
    InARebuild,
    /// In the tests of the node's store: only a store of an older version has it (`no_sync_of_a_migration_is_superfluous`), or
    /// one that keeps records of the catalog (`no_sync_of_what_is_held_is_superfluous`).
    InTheStore,
}

/// Every point has its place.
fn shows(point: SyncPoint) -> Shows {
    match point {
        SyncPoint::BlockSidecar
        | SyncPoint::BlockData
        | SyncPoint::BlockFolder
        | SyncPoint::FormatFolders
        | SyncPoint::Format
        | SyncPoint::FormatFolder
        | SyncPoint::Catalog
        | SyncPoint::CatalogFolder => Shows::AfterAStep,
        SyncPoint::BlockDeleted => Shows::InARebuild,
        SyncPoint::Migrated | SyncPoint::HeldSnapshot | SyncPoint::HeldRecords | SyncPoint::HeldFolder => {
            Shows::InTheStore
        }
    }
}

fn points(place: Shows) -> impl Iterator<Item = SyncPoint> {
    SyncPoint::ALL.into_iter().filter(move |&point| shows(point) == place)
}

#[test]
fn without_a_sync_something_acknowledged_is_lost() {
    let points: Vec<SyncPoint> = points(Shows::AfterAStep).collect();
    let first_puts = vec![Trial::new(When::Steps(1)); 1 + points.len()];
    let ignored = |number: usize| number.checked_sub(1).map(|index| points[index]);
    let lie = |power: &PowerSwitch, number| ignored(number).into_iter().for_each(|point| power.ignore(point));
    for (number, outcome) in outcomes(&first_puts, lie).into_iter().enumerate() {
        match ignored(number) {
            None => assert_eq!(outcome.err(), None, "with all syncs"),
            Some(point) => assert!(outcome.is_err(), "{point:?}: nobody misses it"),
        }
    }
}

/// Each operation needs each of its syncs; those of other operations do not make up for them.
#[test]
fn every_operation_needs_its_own_syncs() {
    use SyncPoint::{BlockData, BlockFolder, BlockSidecar, Catalog};
    let mut trials = Vec::new();
    for (index, step) in STEPS.into_iter().enumerate() {
        let points = match step {
            // Of a block without bytes there is nothing to sync but what the sidecar says of it.
            Step::Put(_, (_, 0)) => &[BlockSidecar, BlockFolder, Catalog][..],
            Step::Put(..) | Step::PutCoded(..) | Step::Archive(_) | Step::Recover => {
                &[BlockSidecar, BlockData, BlockFolder, Catalog]
            }
            Step::Delete(_) => &[Catalog],
            Step::Lose(_) => &[],
        };
        let trial = Trial::new(When::Steps(index + 1));
        trials.push(trial);
        trials.extend(points.iter().map(|&point| Trial { lie: Some((step, point)), ..trial }));
    }
    for (trial, outcome) in trials.iter().zip(outcomes(&trials, |_, _| {})) {
        match trial.lie {
            None => assert_eq!(outcome.err(), None, "{trial:?} with all syncs"),
            Some(lie) => assert!(outcome.is_err(), "{lie:?}: nobody misses it"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_sync_a_deleted_object_comes_back() {
    assert_eq!(objects_after_a_rebuild(|_| {}).await, 0, "with all syncs");
    for point in points(Shows::InARebuild) {
        assert_eq!(
            objects_after_a_rebuild(|power| power.ignore(point)).await,
            1,
            "{point:?}: nobody misses it"
        );
    }
}

/// An object is put, deleted and collected; then the power goes, and the catalog with it.
async fn objects_after_a_rebuild(configure: impl Fn(&PowerSwitch)) -> u64 {
    let power = PowerSwitch::new();
    configure(&power);
    let mut rig = Rig::on(Settings::nodes(3), power).await;
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    rig.client.delete("a").await.unwrap();
    rig.no_garbage().await;
    rig.remove_records();
    rig.power.cut();
    rig.disk = CrashDisk::new(&rig.power);
    rig.power_cycle(&BTreeSet::new(), None).await.unwrap();
    rig.client.recover_catalog(&[], &[]).await.unwrap().objects
}

/// Syncs since `before`, of blocks and of the catalog.
fn syncs(rig: &Rig) -> [u64; 4] {
    use SyncPoint::{BlockData, BlockFolder, BlockSidecar, Catalog};
    [BlockSidecar, BlockData, BlockFolder, Catalog].map(|point| rig.power.syncs(point))
}

/// The fewest of several times: the catalog notes the clock now and then, too.
async fn fewest(rig: &Rig, mut work: impl AsyncFnMut(&Rig, usize)) -> [u64; 4] {
    let mut fewest = [u64::MAX; 4];
    for time in 0..5 {
        let before = syncs(rig);
        work(rig, time).await;
        let after = syncs(rig);
        fewest = std::array::from_fn(|point| fewest[point].min(after[point] - before[point]));
    }
    fewest
}

/// Records of the catalog go to other nodes beside the work, and nobody waits for their syncs: an operation has as many of its
/// own as it has with the records paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nodes_keep_of_the_catalog_costs_puts_and_reads_no_sync() {
    let rig = Rig::on(Settings::nodes(5), PowerSwitch::new()).await;
    rig.put("stripe", &content(2, 2 * BLOCK)).await.unwrap();
    rig.archive("stripe", "rs-2+1").await.unwrap();
    let records = || rig.power.syncs(SyncPoint::HeldRecords) + rig.power.syncs(SyncPoint::HeldSnapshot);
    for action in ["resume", "pause"] {
        rig.control_task("records", action).await;
        let kept = records();
        let put = fewest(&rig, async |rig, time| {
            rig.put(&format!("{action}-{time}"), &content(time as u64, BLOCK)).await.unwrap();
        });
        // Three replicas; the put begins, its block is planned, it is committed.
        assert_eq!(put.await, [3, 3, 3, 3], "{action}");
        let get = fewest(&rig, async |rig, _| drop(rig.get("stripe").await.unwrap()));
        assert_eq!(get.await, [0; 4], "{action}");
        if action == "resume" {
            eventually("what was put is kept by other nodes", async || records() > kept).await;
        }
    }
}
