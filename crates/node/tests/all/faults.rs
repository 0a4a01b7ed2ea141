//! Whatever goes wrong: one typed fault that names the guilty, and nothing under a final name.

use crate::rig::{IMPATIENT_MS, REQUESTOR, Rig, STORED, WRITTEN, read, remove, stages_at, suspect};
use disk::Disk;
use flow::Scheme;
use model::{Cause, Fault};
use node::store::CopyId;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Those with more slices than one, for faults are planted at a slice.
fn streaming() -> impl Iterator<Item = Scheme> {
    Scheme::all().filter(|scheme| !scheme.whole_block())
}

async fn rig() -> Rig {
    Rig::new("rs-4+2", &[300_000; 4], 32 * 1024).await
}

/// Whether helpers send to the requestor alone.
fn is_star(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Conventional | Scheme::FirstParity)
}

/// Member 0 is rebuilt by members 1 … 4 on nodes 2 … 5; a chain runs in that order.
async fn fails(rig: &Rig, scheme: Scheme) -> Fault {
    let started = Instant::now();
    let fault = rig.repair(rig.plan(scheme, &[0], true)).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(8), "{scheme}: {fault} took {:?}", started.elapsed());
    assert!(!rig.repaired(0));
    assert!(!rig.requestor.flows().store.contains(rig.ids[0], WRITTEN).unwrap());
    fault
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arithmetic_names_the_edge_behind_the_helper() {
    let rig = rig().await;
    rig.injections[2].flip_arithmetic(4);
    let fault = fails(&rig, Scheme::Pipeline).await;
    assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptSlice, Some((3, 4))), "{fault}");
    // Slices 4 … 7 share a frame.
    assert!((4..8).contains(&fault.slice), "{fault}");
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
    assert!(rig.repaired(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bit_flipped_on_the_wire_names_the_edge() {
    let rig = rig().await;
    for scheme in streaming() {
        let edge = if is_star(scheme) { (4, REQUESTOR) } else { (4, 5) };
        rig.injections[3].flip_wire(7);
        let fault = fails(&rig, scheme).await;
        assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptSlice, Some(edge)), "{scheme}: {fault}");
    }
}

/// A hop that sends the slices of a frame before it has checked the frame keeps the last one back: whoever comes after it
/// never gets the whole of a wrong frame, and blames nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_slices_share_is_blamed_where_it_went_wrong() {
    for slice_bytes in [32 * 1024, 4096] {
        let rig = Rig::new("rs-4+2", &[300_000; 4], slice_bytes).await;
        let slices = 300_000_u64.div_ceil(u64::from(slice_bytes));
        for slice in (0..slices).step_by(7).chain([slices - 1]) {
            for (helper, edge) in [(1, (2, 3)), (2, (3, 4)), (4, (5, REQUESTOR))] {
                match slice % 2 {
                    0 => rig.injections[helper].flip_wire(slice),
                    _ => rig.injections[helper].flip_arithmetic(slice),
                }
                let fault = fails(&rig, Scheme::Pipeline).await;
                assert_eq!(
                    (fault.cause, suspect(&fault)),
                    (Cause::CorruptSlice, Some(edge)),
                    "{slice}: {fault}"
                );
            }
        }
    }
}

/// Slices longer than a receive buffer are checked piece by piece, and by a checksum when they are not verified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_in_a_long_slice_is_found_and_named() {
    let rig = Rig::new("rs-4+2", &[2_000_000; 4], 512 * 1024).await;
    for scheme in Scheme::all() {
        let slice = if scheme.whole_block() { 0 } else { 2 };
        for (verify, wire) in [(true, true), (true, false), (false, true)] {
            match wire {
                true => rig.injections[3].flip_wire(slice),
                false => rig.injections[3].flip_arithmetic(slice),
            }
            let edge = if is_star(scheme) { (4, REQUESTOR) } else { (4, 5) };
            let fault = rig.repair(rig.plan(scheme, &[0], verify)).await.unwrap_err();
            assert_eq!(
                (fault.cause, suspect(&fault)),
                (Cause::CorruptSlice, Some(edge)),
                "{scheme}: {fault}"
            );
            assert!(!rig.repaired(0));
        }
    }
    damage(rig.disks[1].as_ref(), |bytes| bytes[1_234_567] ^= 1);
    for scheme in Scheme::all() {
        let fault = fails(&rig, scheme).await;
        assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptBlock, Some((2, 2))), "{scheme}: {fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bit_flipped_on_disk_names_the_node_and_the_block() {
    for slice_bytes in [32 * 1024, 1024] {
        let rig = Rig::new("rs-4+2", &[300_000; 4], slice_bytes).await;
        damage(rig.disks[1].as_ref(), |bytes| bytes[123_456] ^= 1);
        for scheme in Scheme::all() {
            let fault = fails(&rig, scheme).await;
            assert_eq!(
                (fault.cause, suspect(&fault)),
                (Cause::CorruptBlock, Some((2, 2))),
                "{scheme}: {fault}"
            );
            assert_eq!(fault.block, Some(rig.ids[1]));
        }
        let copy = CopyId { block: rig.ids[1], generation: STORED };
        let deadline = Instant::now() + Duration::from_secs(5);
        // The node reads it again itself before it says so.
        while rig.nodes[1].flows().suspects.corrupt() != [copy] {
            assert!(Instant::now() < deadline, "its node does not report it");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A small read is one exchange on the data connection: faults are named all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_read_needs_no_control_stream_and_names_the_guilty() {
    let slice_bytes = 4096;
    let rig = Rig::new("rs-4+2", &[300_000; 4], slice_bytes).await;
    let plan = |first, count| {
        let mut plan = rig.read_plan(Scheme::Conventional, &[(0, 0)], (first, count));
        let helpers = plan.participants.iter_mut().filter(|p| p.node != 0);
        helpers.for_each(|p| p.control_addr = "127.0.0.1:1".to_owned());
        plan
    };
    let at = |slice: u64| (slice * u64::from(slice_bytes)) as usize;
    for (first, count) in [(0, 1), (2, 3), (73, 1)] {
        let got = read(plan(first, count), 1, slice_bytes).await.unwrap();
        assert!(got[0] == rig.blocks[0][at(first)..at(first + count).min(300_000)], "{first}");
    }
    // More than a small read: each helper needs its control stream.
    let fault = read(plan(0, 74), 1, slice_bytes).await.unwrap_err();
    assert_eq!(fault.cause, Cause::Unreachable, "{fault}");

    rig.injections[2].flip_wire(5);
    let fault = read(plan(5, 1), 1, slice_bytes).await.unwrap_err();
    assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptSlice, Some((3, 0))), "{fault}");
    damage(rig.disks[1].as_ref(), |bytes| bytes[123_456] ^= 1);
    let fault = read(plan(30, 1), 1, slice_bytes).await.unwrap_err();
    assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptBlock, Some((2, 2))), "{fault}");
    assert_eq!(fault.block, Some(rig.ids[1]));
    damage(rig.disks[1].as_ref(), |bytes| bytes.truncate(1000));
    let fault = read(plan(40, 1), 1, slice_bytes).await.unwrap_err();
    assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptBlock, Some((2, 2))), "{fault}");
    // The others go on answering.
    let got = read(plan(73, 1), 1, slice_bytes).await;
    assert_eq!(suspect(&got.unwrap_err()), Some((2, 2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_block_is_noticed_before_anything_runs() {
    let rig = rig().await;
    damage(rig.disks[1].as_ref(), |bytes| bytes.truncate(1000));
    for scheme in Scheme::all() {
        let fault = fails(&rig, scheme).await;
        assert_eq!((fault.cause, suspect(&fault)), (Cause::CorruptBlock, Some((2, 2))), "{scheme}: {fault}");
    }
}

/// Of so many stalls one before the last is that of the silent helper alone.
const STALLS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_goes_silent_is_blamed_by_its_successor() {
    let mut rig = rig().await;
    rig.stall_ms = IMPATIENT_MS;
    for scheme in streaming() {
        // The tree: 2 → 3 and 4 → 5, then 3 → 5, then 5 → requestor.
        let to = match scheme {
            Scheme::Conventional | Scheme::FirstParity => REQUESTOR,
            Scheme::PprSliced => 5,
            _ => 4,
        };
        let mut blamed = Vec::new();
        while blamed.len() < STALLS {
            rig.injections[2].stall(5);
            let fault = fails(&rig, scheme).await;
            // The order of helpers depends on which lane carries slice 5.
            let rotated = suspect(&fault).filter(|_| scheme == Scheme::Cyclic).map(|(_, to)| to);
            let is_it = suspect(&fault) == Some((3, rotated.unwrap_or(to)));
            blamed.push(fault.to_string());
            if fault.cause == Cause::Stalled && is_it {
                break;
            }
        }
        // A machine that stands still for a second and a half has others wait, too.
        assert!(blamed.len() < STALLS, "{scheme}: {blamed:#?}");
    }
}

/// Numbers that no coordinator sends: refused, by the driver or by who is to be prepared, and nobody panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_beyond_all_bounds_are_refused() {
    let rig = rig().await;
    let spoilt: [fn(&mut wire::proto::FlowPlan); 6] = [
        |plan| plan.stages[0].lane = u32::MAX,
        |plan| plan.stages[0].lane = 300,
        |plan| plan.shares = vec![0],
        |plan| plan.shares = vec![1, 1],
        |plan| (plan.first_slice, plan.slice_count) = (u64::MAX, 2),
        |plan| plan.slice_count += 1,
    ];
    for (case, spoil) in spoilt.into_iter().enumerate() {
        let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
        spoil(&mut plan);
        let fault = rig.repair(plan).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Invalid, "case {case}: {fault}");
    }
    let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
    let outputs = plan.stages.iter_mut().flat_map(|stage| &mut stage.outputs);
    for output in outputs {
        if let Some(wire::proto::stage_output::Kind::Write(write)) = &mut output.kind {
            write.stored_bytes = u64::MAX;
        }
    }
    let fault = rig.repair(plan).await.unwrap_err();
    assert_eq!(fault.cause, Cause::Invalid, "{fault}");
    // The helpers had begun. Whoever of them had sent all holds its connection to be free; whoever is to receive it must
    // not hang on where nobody will answer.
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_helper_is_unreachable() {
    let mut rig = rig().await;
    let plan = rig.plan(Scheme::Pipeline, &[0], true);
    rig.nodes.remove(2).shutdown().await;
    let fault = rig.repair(plan).await.unwrap_err();
    assert_eq!((fault.cause, suspect(&fault)), (Cause::Unreachable, Some((3, 3))), "{fault}");
}

/// A helper that is limited to so much needs seconds for its block.
const SLOWLY_BYTES_PER_S: u64 = 60_000;

/// Its successor's data port answers and closes: who loses the connection says so and ends, and is not to blame for that. The helper
/// is made slow, for one that has sent all before the port closes holds its connection to be good, and its silence is a stall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_names_its_edge() {
    let rig = rig().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (helper, edge) in [(2, (2, 3)), (4, (4, 5))] {
        let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
        plan.participants[helper + 1].data_addr = listener.local_addr().unwrap().to_string();
        let listener = listener.try_clone().unwrap();
        let closes = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; wire::frame::HELLO_BYTES]).unwrap();
            stream.write_all(&wire::frame::Reply::Accepted.encode()).unwrap();
            // As long as a busy machine may let it wait for its turn.
            std::thread::sleep(Duration::from_millis(200));
        });
        let throttle = rig.nodes[helper - 1].engine().throttle().clone();
        throttle.set(SLOWLY_BYTES_PER_S, 0);
        let fault = rig.repair(plan).await.unwrap_err();
        throttle.set(0, 0);
        closes.join().unwrap();
        assert_eq!((fault.cause, suspect(&fault)), (Cause::Disconnected, Some(edge)), "{fault}");
        assert!(!rig.repaired(0));
    }
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
    assert!(rig.repaired(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_attempt_is_refused() {
    let rig = rig().await;
    let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
    let older = plan.clone();
    plan.header.as_mut().unwrap().attempt = 2;
    rig.repair(plan).await.unwrap();
    remove(&rig.requestor.flows().store, rig.ids[0]);
    let fault = rig.repair(older).await.unwrap_err();
    assert_eq!(fault.cause, Cause::StaleAttempt, "{fault}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_not_what_was_written_gets_no_name() {
    let rig = rig().await;
    let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
    for stage in &mut plan.stages {
        for output in &mut stage.outputs {
            if let Some(wire::proto::stage_output::Kind::Write(write)) = &mut output.kind {
                write.digest[0] ^= 1;
            }
        }
    }
    let fault = rig.repair(plan).await.unwrap_err();
    assert_eq!(fault.cause, Cause::WrongDigest, "{fault}");
    assert!(!rig.requestor.flows().store.contains(rig.ids[0], WRITTEN).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_every_port_harms_nobody() {
    let rig = rig().await;
    let mut state = 7u64;
    for node in &rig.nodes {
        for addr in [node.control_addr(), node.data_addr()] {
            for length in [1usize, 64, 65, 5000] {
                let garbage: Vec<u8> = (0..length)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        (state >> 33) as u8
                    })
                    .collect();
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                // The daemon may hang up in the middle; that is its right.
                let _ = stream.write_all(&garbage);
                let _ = stream.read(&mut [0; 64]);
            }
        }
    }
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
    assert!(rig.repaired(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_without_the_token_gets_no_edge() {
    let rig = rig().await;
    let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
    // The receiving end of the last edge is told another secret than the sending end.
    let last = plan.edges.len() - 1;
    let requestor = &rig.requestor.engine();
    let requestor =
        requestor.prepare(stages_at(&plan, 0), Vec::new(), false, exec::StageIo::default()).await.unwrap();
    plan.edges[last].token[0] ^= 1;
    let mut helpers = Vec::new();
    for site in 2..6 {
        let engine = &rig.nodes[site as usize - 1].engine();
        helpers.push(
            engine
                .prepare(stages_at(&plan, site), Vec::new(), false, exec::StageIo::default())
                .await
                .unwrap(),
        );
    }
    let mut refused = None;
    for prepared in helpers.iter().chain([&requestor]) {
        prepared.grant(0, 0, 4).unwrap();
    }
    for mut prepared in helpers {
        while let Ok(Some(message)) =
            tokio::time::timeout(Duration::from_millis(300), prepared.events.recv()).await
        {
            if let wire::proto::stage_message::Kind::Failed(fault) = message {
                refused = Some(Fault::from(fault));
            }
        }
    }
    let fault = refused.unwrap();
    assert_eq!(fault.cause, Cause::Disconnected, "{fault}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_beyond_the_block_are_refused() {
    let rig = rig().await;
    let plan = rig.plan(Scheme::Pipeline, &[0], true);
    let engine = &rig.requestor.engine();
    let prepared =
        engine.prepare(stages_at(&plan, 0), Vec::new(), false, exec::StageIo::default()).await.unwrap();
    for (first, count) in [(0, 11), (10, 1), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(prepared.grant(0, first, count).unwrap_err().cause, Cause::Invalid);
    }
    prepared.grant(0, 0, 10).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_are_given_back() {
    let rig = rig().await;
    for scheme in streaming() {
        rig.injections[2].flip_wire(3);
        fails(&rig, scheme).await;
        rig.repair(rig.plan(scheme, &[0], true)).await.unwrap();
        remove(&rig.requestor.flows().store, rig.ids[0]);
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while rig.nodes.iter().chain([&rig.requestor]).any(|n| n.engine().running_stages() > 0) {
        assert!(Instant::now() < deadline, "stages still run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Changes the one block file of a store.
pub fn damage(disk: &dyn Disk, change: impl FnOnce(&mut Vec<u8>)) {
    let folders = disk.list(Path::new("blocks")).unwrap();
    let files = folders.iter().flat_map(|folder| {
        let folder = Path::new("blocks").join(&folder.name);
        disk.list(&folder).unwrap().into_iter().map(move |file| folder.join(file.name))
    });
    let block = files
        .into_iter()
        .find(|path| path.extension().is_none_or(|extension| extension != "meta"))
        .expect("a block");
    let file = disk.open_write(&block).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    change(&mut bytes);
    file.set_len(bytes.len() as u64).unwrap();
    file.write_at(0, &bytes).unwrap();
}
