//! Bytes equal, bytes on each link as predicted.

use crate::rig::{Rig, WRITTEN, read, remove};
use flow::{Scheme, limits};
use model::{BlockId, Cause, FlowId};
use wire::mac::{Mac, WrittenCopy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_is_rebuilt_by_every_scheme() {
    for (code, lengths, slice_bytes) in [
        ("rs-4+2", vec![300_000; 4], 32 * 1024),
        ("rs-4+2", vec![300_001, 17, 262_144, 1], 1024),
        ("rs-cauchy-3+2", vec![200_000, 131_072, 199_999], 64 * 1024),
        ("random-a2-4+2-s1", vec![300_000, 65_536, 290_001, 40_000], 32 * 1024),
        ("random-a2-4+2-s1", vec![150_000; 4], 4096),
        // Slices longer than a receive buffer go another way through a stage.
        ("rs-4+2", vec![1_400_000, 1_048_577, 700_000, 1], 512 * 1024),
        ("random-a2-4+2-s1", vec![1_300_000, 1_300_000, 5, 700_001], 512 * 1024),
    ] {
        let mut rig = Rig::new(code, &lengths, slice_bytes).await;
        for scheme in Scheme::all() {
            for verify in [true, false] {
                for member in 0..rig.blocks.len() {
                    let plan = rig.plan(scheme, &[member as u16], verify);
                    let result =
                        rig.repair(plan).await.unwrap_or_else(|f| panic!("{code} {scheme} {member}: {f}"));
                    assert!(rig.repaired(member), "{code} {scheme} {member}");
                    assert!(result.verified_us <= result.durable_us);
                    remove(&rig.requestor.flows().store, rig.ids[member]);
                }
            }
        }
        rig.nodes.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_lost_blocks_come_from_one_flow() {
    let rig = Rig::new("rs-4+2", &[100_000, 99_999, 3, 70_000], 32 * 1024).await;
    for scheme in Scheme::all() {
        let result = rig.repair(rig.plan(scheme, &[1, 4], true)).await.unwrap();
        assert_eq!(result.staged.len(), 2);
        for member in [1, 4] {
            assert!(rig.repaired(member));
            remove(&rig.requestor.flows().store, rig.ids[member]);
        }
    }
}

/// The MAC proves to the planner that the node wrote the copy, whoever relays it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_copy_that_is_written_comes_with_the_mac_of_its_node() {
    let rig = Rig::new("rs-4+2", &[100_000, 99_999, 3, 70_000], 32 * 1024).await;
    let plan = rig.plan(Scheme::Conventional, &[1, 4], true);
    let flow = FlowId::from_slice(&plan.header.as_ref().unwrap().flow).unwrap();
    let staged = rig.repair(plan).await.unwrap().staged;
    assert_eq!(staged.len(), 2);
    let flows = rig.requestor.flows();
    for staged in staged {
        let sums = wire::codec::block::sums(&staged.digest, &staged.fingerprint).unwrap();
        let copy = WrittenCopy {
            flow,
            block: BlockId::from_slice(&staged.block).unwrap(),
            generation: staged.generation,
            stored_bytes: staged.stored_bytes,
            sums: &sums,
            store: flows.store.identity().store,
            incarnation: flows.store.incarnation(),
        };
        assert!(flows.secret.of_copy(&copy).is(&Mac::from_slice(&staged.mac).unwrap()));
        assert!(sums.digest.is_some() && sums.fingerprint.is_some());
    }
}

/// Every parity is written, byte for byte, where it was to be, bytes on every link are as predicted, and every data block is
/// read once. But for the star the driver takes no part in the flow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parities_are_made_by_every_encoding_scheme() {
    for (code, lengths, slice_bytes) in [
        ("rs-4+3", vec![300_000, 299_999, 3, 270_000], 8 * 1024),
        ("lrc-4+2+2", vec![300_000, 1, 200_000, 65_536], 32 * 1024),
        ("rs-3+2", vec![1_400_000, 3, 700_000], 512 * 1024),
        ("random-a2-3+2-s1", vec![150_000, 1, 90_000], 4096),
    ] {
        let rig = Rig::new(code, &lengths, slice_bytes).await;
        let (k, n) = (rig.code.k(), rig.code.n());
        for scheme in flow::EncodeScheme::of(&rig.code) {
            let (plan, predicted) = rig.plan_encoding(scheme);
            let result = rig.repair(plan).await.unwrap_or_else(|f| panic!("{code} {scheme}: {f}"));
            let links = result.links.iter().map(|l| ((flow::Site(l.from), flow::Site(l.to)), l.bytes));
            assert_eq!(
                links.collect::<Vec<_>>(),
                predicted.links.into_iter().collect::<Vec<_>>(),
                "{code} {scheme}"
            );
            let read: u64 = result.stages.iter().map(|s| s.disk_read_bytes).sum();
            assert_eq!(read, lengths.iter().sum::<u64>(), "{code} {scheme}");
            for member in k..n {
                let node = &rig.nodes[if member + 1 == n { 0 } else { member }];
                let store = &node.flows().store;
                assert!(store.reader(rig.ids[member], WRITTEN).is_ok(), "{code} {scheme} {member}");
                assert!(rig.stores(node, member), "{code} {scheme} {member}");
                remove(store, rig.ids[member]);
            }
        }
    }
}

/// RP §4.4: each block at a requestor of its own, bytes on every link as predicted, every helper's block read once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_lost_blocks_go_to_as_many_requestors() {
    for (code, lengths, slice_bytes) in [
        ("rs-3+5", vec![100_000, 99_999, 70_000], 8 * 1024),
        ("rs-3+5", vec![1_400_000, 3, 700_000], 512 * 1024),
        ("random-a2-3+5-s1", vec![150_000, 1, 90_000], 4096),
    ] {
        let rig = Rig::new(code, &lengths, slice_bytes).await;
        // Blocks 1 and 5 are rebuilt where 0 and 6 are stored, which do not help.
        let others = [(1, 0), (5, 6)];
        for scheme in Scheme::all().filter(|&scheme| flow::multi_block::repairs_several(scheme)) {
            let (plan, predicted) = rig.plan_several(scheme, 2, &others);
            let result = rig.repair(plan).await.unwrap_or_else(|f| panic!("{code} {scheme}: {f}"));
            let links = result.links.iter().map(|l| ((flow::Site(l.from), flow::Site(l.to)), l.bytes));
            assert_eq!(
                links.collect::<Vec<_>>(),
                predicted.links.into_iter().collect::<Vec<_>>(),
                "{scheme}"
            );
            let read: u64 = result.stages.iter().map(|s| s.disk_read_bytes).sum();
            assert_eq!(read, predicted.disk_read.values().sum::<u64>(), "{code} {scheme}");
            assert_eq!(result.staged.len(), 3);
            assert!(rig.repaired(2), "{code} {scheme}");
            remove(&rig.requestor.flows().store, rig.ids[2]);
            for (member, at) in others.map(|(member, at)| (usize::from(member), usize::from(at))) {
                assert!(rig.stores(&rig.nodes[at], member), "{code} {scheme} {member}");
                remove(&rig.nodes[at].flows().store, rig.ids[member]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_carry_what_was_predicted() {
    for (lengths, slice_bytes) in
        [([200_000, 131_072, 65_537, 1], 32 * 1024), ([1_400_000, 1_048_577, 700_000, 1], 512 * 1024)]
    {
        links_carry(Rig::new("rs-4+2", &lengths, slice_bytes).await).await;
    }
}

async fn links_carry(rig: Rig) {
    for scheme in Scheme::all() {
        let lost = flow::Member(0);
        let plan = rig.plan(scheme, &[0], true);
        let result = rig.repair(plan.clone()).await.unwrap();
        let wanted = flow::RepairRequest::whole_blocks(&rig.code, &[lost]);
        let flow = rig.flow(scheme, wanted, flow::Sink::Write, &[lost]);
        let stored = |m: flow::Member| rig.blocks[usize::from(m.0)].len() as u64;
        let predicted = flow::predict(&flow, stored, None);
        let measured: Vec<_> =
            result.links.iter().map(|l| ((flow::Site(l.from), flow::Site(l.to)), l.bytes)).collect();
        assert_eq!(measured, predicted.links.into_iter().collect::<Vec<_>>(), "{scheme}");
        let read: u64 = result.stages.iter().map(|s| s.disk_read_bytes).sum();
        assert_eq!(read, predicted.disk_read.values().sum::<u64>(), "{scheme}");
        remove(&rig.requestor.flows().store, rig.ids[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reads_a_range_of_a_lost_block() {
    let slice_bytes = 32 * 1024;
    let rig = Rig::new("rs-4+2", &[200_000; 4], slice_bytes).await;
    for scheme in Scheme::all() {
        let got = read(rig.read_plan(scheme, &[(2, 0)], (1, 3)), 1, slice_bytes).await.unwrap();
        let range = if scheme.whole_block() { 0..200_000 } else { 32 * 1024..4 * 32 * 1024 };
        assert!(got[0] == rig.blocks[2][range], "{scheme}");
        let whole = read(rig.read_plan(scheme, &[(5, 0)], (0, 7)), 1, slice_bytes).await.unwrap();
        assert!(whole[0] == rig.blocks[5], "{scheme}");
    }
}

/// Windows end within chunks, and lanes have slices much shorter than a chunk: each chunk still comes whole from one lane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_of_short_slices_share_no_chunk() {
    for slice_bytes in [1024, 4096] {
        let rig = Rig::new("rs-4+2", &[2_000_000; 4], slice_bytes).await;
        let mut plan = rig.plan(Scheme::Cyclic, &[0], true);
        plan.header.as_mut().unwrap().window_slices = 42;
        let result = rig.repair(plan).await.unwrap();
        assert!(rig.repaired(0), "{slice_bytes}");
        let flow = rig.flow(
            Scheme::Cyclic,
            flow::RepairRequest::whole_blocks(&rig.code, &[flow::Member(0)]),
            flow::Sink::Write,
            &[flow::Member(0)],
        );
        let predicted = flow::predict(&flow, |_| 2_000_000, None);
        let carried = result.links.iter().map(|l| ((flow::Site(l.from), flow::Site(l.to)), l.bytes));
        assert_eq!(carried.collect::<Vec<_>>(), predicted.links.into_iter().collect::<Vec<_>>());
    }
}

/// However fast their links are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_go_on_as_fast_as_they_are_to_begin() {
    let rig = Rig::new("rs-4+2", &[3_000_000; 4], 8 * 1024).await;
    let mut plan = rig.plan(Scheme::Cyclic, &[0], true);
    plan.symbol_bytes_per_s = 10_000_000;
    let began = std::time::Instant::now();
    rig.repair(plan).await.unwrap();
    // A lane's last piece goes when those before it have had their time; 8 ms are credited.
    let piece = 3.0 * 32_768.0;
    let least = (3_000_000.0 - piece) / 10_000_000.0 - 0.008;
    assert!(began.elapsed().as_secs_f64() > least, "{:?} for {least}", began.elapsed());
    assert!(rig.repaired(0));
}

/// In a chain of even blocks four slices of 32 KiB share a frame, and so a header and a fingerprint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_of_even_chains_share_frames() {
    const HEADER_AND_FINGERPRINT: u64 = 64 + 128;
    const END: u64 = 64;
    for (lengths, slice_bytes, frames) in [
        ([300_000; 4], 32 * 1024, 3),
        ([300_000; 4], 1024, 3),
        ([300_000; 4], 64 * 1024, 5),
        // The chain begins with the longest: nobody adds more than it received.
        ([1, 300_000, 70_000, 0], 32 * 1024, 3),
        ([300_000, 70_000, 300_000, 300_000], 32 * 1024, 10),
    ] {
        let shares = frames == 3;
        let rig = Rig::new("rs-4+2", &lengths, slice_bytes).await;
        let plan = rig.plan(Scheme::Pipeline, &[0], true);
        assert_eq!(plan.header.as_ref().unwrap().frame_slices > 1, shares, "{lengths:?} {slice_bytes}");
        let result = rig.repair(plan).await.unwrap();
        assert!(rig.repaired(0), "{lengths:?} {slice_bytes}");
        let last = result.stages.iter().flat_map(|stage| &stage.sent).max_by_key(|sent| sent.edge).unwrap();
        let fingerprints = if shares { frames } else { last.payload_bytes.div_ceil(32 * 1024) };
        let overhead = frames * HEADER_AND_FINGERPRINT + (fingerprints - frames) * 128 + END;
        assert_eq!(last.wire_bytes, last.payload_bytes + overhead, "{lengths:?} {slice_bytes}");
    }
}

/// A local parity of short blocks: where its group ends, so do the frames' payloads, not the slices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_beyond_the_end_of_a_chain_are_empty() {
    for slice_bytes in [32 * 1024, 1024] {
        let rig = Rig::new("lrc-6+2+2", &[70_000, 70_000, 1, 900_000, 900_000, 900_000], slice_bytes).await;
        let local_parity = 6;
        let plan = rig.plan(Scheme::Pipeline, &[local_parity], true);
        assert_eq!(plan.edges.iter().map(|edge| edge.extents[0]).collect::<Vec<_>>(), [70_000; 3]);
        assert!(plan.header.as_ref().unwrap().frame_slices > 1);
        rig.repair(plan).await.unwrap();
        assert!(rig.repaired(local_parity.into()), "{slice_bytes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_plain_chain_cannot_share_frames() {
    let rig = Rig::new("rs-2+1", &[100_000, 100_000], 1024).await;
    for scheme in Scheme::all() {
        let shares = rig.plan(scheme, &[0], true).header.unwrap().frame_slices > 1;
        assert!(!shares || (!scheme.serial() && !scheme.whole_block()), "{scheme}");
        assert_eq!(rig.plan(scheme, &[0], false).header.unwrap().frame_slices, 1, "{scheme}");
    }
    for frame_slices in [2, 129, u32::MAX] {
        let mut plan = rig.plan(Scheme::Conventional, &[0], true);
        plan.header.as_mut().unwrap().frame_slices = frame_slices;
        let fault = rig.repair(plan).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Invalid, "{fault}");
    }
}

/// A block of the usual size as one slice: one frame of 64 MiB over each edge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_usual_block_goes_as_one_frame() {
    let bytes = limits::DEFAULT_BLOCK_BYTES;
    let rig = Rig::new("rs-3+1", &[bytes, bytes - 1, bytes], limits::DEFAULT_SLICE_BYTES).await;
    for scheme in Scheme::all().filter(|scheme| scheme.whole_block()) {
        let plan = rig.plan(scheme, &[0], true);
        assert_eq!(plan.slice_count, 1);
        rig.repair(plan).await.unwrap();
        assert!(rig.repaired(0), "{scheme}");
        remove(&rig.requestor.flows().store, rig.ids[0]);
    }
}

/// Only chains: a stage that takes two streams could wait for an acknowledgement that waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_chain_cannot_be_serial() {
    let rig = Rig::new("rs-2+1", &[1000, 1000], 1024).await;
    let mut plan = rig.plan(Scheme::Conventional, &[0], true);
    plan.header.as_mut().unwrap().serial = true;
    let fault = rig.repair(plan).await.unwrap_err();
    assert_eq!(fault.cause, Cause::Invalid, "{fault}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_no_bytes_and_slices_beyond_the_block_work() {
    let rig = Rig::new("rs-2+1", &[0, 0], 32 * 1024).await;
    assert_eq!(rig.blocks[2].len(), 0);
    let rig = Rig::new("rs-2+1", &[1000, 1], 64 << 20).await;
    for scheme in Scheme::all() {
        rig.repair(rig.plan(scheme, &[0], true)).await.unwrap();
        assert!(rig.repaired(0));
        remove(&rig.requestor.flows().store, rig.ids[0]);
    }
}
