//! Bytes equal, bytes on each link as predicted.

use crate::rig::{Rig, read};
use flow::Scheme;

const SCHEMES: [Scheme; 2] = [Scheme::Conventional, Scheme::Pipeline];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_is_rebuilt_by_every_scheme() {
    for (code, lengths, slice_bytes) in [
        ("rs-4+2", vec![300_000; 4], 32 * 1024),
        ("rs-4+2", vec![300_001, 17, 262_144, 1], 1024),
        ("rs-cauchy-3+2", vec![200_000, 131_072, 199_999], 64 * 1024),
        ("random-a2-4+2-s1", vec![300_000, 65_536, 290_001, 40_000], 32 * 1024),
        ("random-a2-4+2-s1", vec![150_000; 4], 4096),
    ] {
        let mut rig = Rig::new(code, &lengths, slice_bytes).await;
        for scheme in SCHEMES {
            for verify in [true, false] {
                for member in 0..rig.blocks.len() {
                    let plan = rig.plan(scheme, &[member as u16], verify);
                    let result =
                        rig.repair(plan).await.unwrap_or_else(|f| panic!("{code} {scheme} {member}: {f}"));
                    assert!(rig.repaired(member), "{code} {scheme} {member}");
                    assert!(result.verified_us <= result.durable_us);
                    rig.requestor.shared().flows.store.delete(rig.ids[member]).unwrap();
                }
            }
        }
        rig.nodes.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_lost_blocks_come_from_one_flow() {
    let rig = Rig::new("rs-4+2", &[100_000, 99_999, 3, 70_000], 32 * 1024).await;
    for scheme in SCHEMES {
        let result = rig.repair(rig.plan(scheme, &[1, 4], true)).await.unwrap();
        assert_eq!(result.staged.len(), 2);
        for member in [1, 4] {
            assert!(rig.repaired(member));
            rig.requestor.shared().flows.store.delete(rig.ids[member]).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_carry_what_was_predicted() {
    let lengths = [200_000, 131_072, 65_537, 1];
    let rig = Rig::new("rs-4+2", &lengths, 32 * 1024).await;
    for scheme in SCHEMES {
        let lost = flow::Member(0);
        let plan = rig.plan(scheme, &[0], true);
        let result = rig.repair(plan.clone()).await.unwrap();
        let helpers: Vec<_> = (1..6u16)
            .map(|m| flow::Helper {
                member: flow::Member(m),
                site: flow::Site(u32::from(m) + 1),
                stored_bytes: rig.blocks[usize::from(m)].len() as u64,
            })
            .collect();
        let request = flow::RepairRequest {
            code: &rig.code,
            geometry: rig.geometry,
            wanted: flow::RepairRequest::whole_blocks(&rig.code, &[lost]),
            helpers: &helpers,
            absent: &[],
            requestor: flow::Site(0),
            sink: flow::Sink::Write,
        };
        let flow = flow::build(scheme, &request).unwrap();
        let stored = |m: flow::Member| rig.blocks[usize::from(m.0)].len() as u64;
        let predicted = flow::predict(&flow, stored, None);
        let measured: Vec<_> =
            result.links.iter().map(|l| ((flow::Site(l.from), flow::Site(l.to)), l.bytes)).collect();
        assert_eq!(measured, predicted.links.into_iter().collect::<Vec<_>>(), "{scheme}");
        let read: u64 = result.stages.iter().map(|s| s.disk_read_bytes).sum();
        assert_eq!(read, predicted.disk_read.values().sum::<u64>(), "{scheme}");
        rig.requestor.shared().flows.store.delete(rig.ids[0]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reads_a_range_of_a_lost_block() {
    let slice_bytes = 32 * 1024;
    let rig = Rig::new("rs-4+2", &[200_000; 4], slice_bytes).await;
    for scheme in SCHEMES {
        let got = read(rig.read_plan(scheme, &[(2, 0)], (1, 3)), 1, slice_bytes).await.unwrap();
        assert!(got[0] == rig.blocks[2][32 * 1024..4 * 32 * 1024], "{scheme}");
        let whole = read(rig.read_plan(scheme, &[(5, 0)], (0, 7)), 1, slice_bytes).await.unwrap();
        assert!(whole[0] == rig.blocks[5], "{scheme}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_no_bytes_and_slices_beyond_the_block_work() {
    let rig = Rig::new("rs-2+1", &[0, 0], 32 * 1024).await;
    assert_eq!(rig.blocks[2].len(), 0);
    let rig = Rig::new("rs-2+1", &[1000, 1], 64 << 20).await;
    for scheme in SCHEMES {
        rig.repair(rig.plan(scheme, &[0], true)).await.unwrap();
        assert!(rig.repaired(0));
        rig.requestor.shared().flows.store.delete(rig.ids[0]).unwrap();
    }
}
