//! Whatever is lost comes back as it was.

use crate::datanode::listing;
use crate::rig::{Answer, GROUP, Rig};
use std::fs;

const CELL: u64 = 4_096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_single_loss_of_rs_6_3_is_decoded_and_nothing_is_written() {
    let rig = Rig::new(("rs", 6, 3), CELL, 6 * CELL * 23 + 3 * CELL + 17).await;
    let before: Vec<_> = rig.datanodes.iter().map(|datanode| listing(&datanode.path())).collect();
    for member in 0..9 {
        rig.brings(&rig.all_of(&[member])).await;
    }
    let after: Vec<_> = rig.datanodes.iter().map(|datanode| listing(&datanode.path())).collect();
    assert!(before == after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_policies_of_hdfs_decode_several_losses_at_once() {
    for (policy, losses) in [
        (("rs", 6, 3), &[&[0, 8][..], &[3, 1, 5], &[6, 7, 8]][..]),
        (("rs", 3, 2), &[&[0], &[4, 1]]),
        (("rs", 10, 4), &[&[12], &[9, 0, 13, 4]]),
        (("rs-legacy", 6, 3), &[&[7], &[2, 0, 8]]),
        (("xor", 2, 1), &[&[0], &[1], &[2]]),
    ] {
        let rig = Rig::new(policy, CELL, u64::from(policy.1) * CELL * 11 + 5).await;
        for lost in losses {
            rig.brings(&rig.all_of(lost)).await;
        }
    }
}

/// A byte, a cell and k cells, one more and one less: short members, and such that there are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_groups_are_decoded_as_if_they_were_filled_up_with_zeros() {
    for data_bytes in [1, CELL - 1, CELL, CELL + 1, 3 * CELL - 1, 3 * CELL, 3 * CELL + 1, 4 * CELL + 9] {
        let rig = Rig::new(("rs", 3, 2), CELL, data_bytes).await;
        for member in (0..5).filter(|member| rig.layout.stored_bytes(*member) > 0) {
            rig.brings(&rig.all_of(&[member])).await;
        }
        // The second parity is lost with the first block; with all lost that may be.
        rig.brings(&rig.all_of(&[0, 4])).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_scheme_brings_any_range() {
    let rig = Rig::new(("rs", 6, 3), 64 << 10, 6 * (64 << 10) * 3).await;
    let length = rig.layout.block_bytes();
    for scheme in [
        "",
        "conventional",
        "pipeline",
        "ppr",
        "ppr-sliced",
        "rack-aware",
        "weighted",
        "cyclic",
        "multi-path",
    ] {
        for range in [0..length, 0..1, 40_000..40_001, 65_535..131_073, length - 1..length] {
            for wanted in [&[4][..], &[8, 0]] {
                let mut wish = rig.all_of(wanted);
                (wish.range, wish.scheme) = (range.clone(), scheme);
                rig.brings(&wish).await;
            }
        }
    }
}

/// A whole block is one slice of these schemes, and many frames.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_are_short_however_long_slices_are() {
    let rig = Rig::new(("rs", 3, 2), 1 << 20, 3 * (5 << 20)).await;
    for scheme in ["ppr", "pipe-b"] {
        let mut wish = rig.all_of(&[2, 3]);
        (wish.range, wish.scheme) = (1..(5 << 20) - 1, scheme);
        rig.brings(&wish).await;
    }
}

/// A block of a replicated file, as the NameNode counts them.
const FIRST_REPLICA: i64 = 1_073_741_825;

/// Of a whole group, and of one whose last block is short and two of whose blocks are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parities_are_made_of_replicas_that_are_blocks_of_another_file() {
    for data_bytes in [6 * (256 << 10), 3 * (256 << 10) + 1_001] {
        let rig = Rig::new(("rs", 6, 3), 256 << 10, data_bytes).await;
        let mut wish = rig.all_of(&[6, 7, 8]);
        for &member in &wish.living {
            let datanode = &rig.datanodes[usize::from(member)];
            datanode.put(FIRST_REPLICA + i64::from(member), &rig.blocks[usize::from(member)]);
            // Of the group itself nobody has anything.
            fs::remove_file(datanode.block(GROUP + i64::from(member))).unwrap();
        }
        let refused = rig.ask(&wish).await;
        assert!(matches!(refused, Answer::Refused(3 | 5, ..)), "{refused:?}");
        wish.replicas = Some(FIRST_REPLICA);
        for scheme in ["", "conventional", "pipeline"] {
            wish.scheme = scheme;
            rig.brings(&wish).await;
        }
    }
}
