//! A store of version 1 becomes one of this version, whenever the power goes, and loses nothing.

use super::*;
use crate::store::meta::FormV2;
use disk::SyncPoint;

const A: BlockId = BlockId(0xaa << 120 | 1);
const B: BlockId = BlockId(0xaa << 120 | 2);
const HALF: BlockId = BlockId(0xbb << 120 | 3);
const ALONE: BlockId = BlockId(0xbb << 120 | 4);
const SPOILT: BlockId = BlockId(0xcc << 120 | 5);
const BYTES: usize = CHUNK_BYTES + 77;

fn old_data(block: BlockId) -> PathBuf {
    Path::new("blocks").join(&block.to_string()[..2]).join(block.to_string())
}

fn old_sidecar(block: BlockId) -> PathBuf {
    old_data(block).with_extension("meta")
}

/// The sidecar as version 2 wrote it.
fn as_version_2(sidecar: &[u8], block: BlockId, generation: u64, bytes: &[u8]) -> Vec<u8> {
    let digest = *blake3::hash(bytes).as_bytes();
    let meta_bytes = u32::from_le_bytes(sidecar[12..16].try_into().unwrap()) as usize;
    let entries = &sidecar[16 + meta_bytes + 4..];
    let mut fingerprint = gf::Fingerprint::ZERO;
    for (index, chunk) in (0..).zip(bytes.chunks(CHUNK_BYTES)) {
        fingerprint.fold(index, &gf::kernels().fingerprint(chunk));
    }
    let form = FormV2::of(block, generation, bytes.len() as u64, digest, &fingerprint);
    let body = postcard::to_stdvec(&form).unwrap();
    let mut out = sidecar[..12].to_vec();
    out[8] = 2;
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&body);
    let crc = wire::frame::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(entries);
    out
}

/// A store as version 1 left it: two whole blocks, half ones, and one whose sidecar is damaged.
fn old_store() -> Bench {
    let bench = Bench::new();
    let store = bench.store();
    for (block, generation) in [(A, 1), (B, 7), (HALF, 2), (ALONE, 3), (SPOILT, 4)] {
        let bytes = content(generation, BYTES);
        put(&store, block, generation, &bytes).unwrap();
        let (data, sidecar) = (data_path_of(block, generation), sidecar_path_of(block, generation));
        let old = as_version_2(&file(&bench.disk, &sidecar), block, generation, &bytes);
        bench.disk.damage(&sidecar, |bytes| bytes.clone_from(&old)).unwrap();
        bench.disk.rename(&data, &old_data(block)).unwrap();
        bench.disk.rename(&sidecar, &old_sidecar(block)).unwrap();
    }
    drop(store);
    bench.disk.remove(&old_data(HALF)).unwrap();
    bench.disk.remove(&old_sidecar(ALONE)).unwrap();
    bench.disk.damage(&old_sidecar(SPOILT), |bytes| bytes[30] ^= 1).unwrap();
    for folder in ["blocks/aa", "blocks/bb", "blocks/cc"] {
        bench.disk.sync_folder(Path::new(folder), SyncPoint::BlockFolder).unwrap();
    }
    let identity = "stripeline-store 1\nnode 7\ncluster 00112233445566778899aabbccddeeff\ncrc32c f097421e\n";
    bench.disk.damage(Path::new("identity"), |bytes| *bytes = identity.into()).unwrap();
    bench
}

/// What is wrong with the store that came of it.
fn check(disk: &CrashDisk) -> std::result::Result<(), String> {
    let store = open(disk).map_err(|error| error.to_string())?;
    if store.identity().cluster != Some(ClusterId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)) {
        return Err("the cluster is forgotten".to_owned());
    }
    for (block, generation) in [(A, 1), (B, 7)] {
        let bytes = get(&store, block, generation).map_err(|error| error.to_string())?;
        if bytes != content(generation, BYTES) {
            return Err(format!("{block}: other bytes"));
        }
    }
    // A rename that was cut may leave a file both its names: the old one is a strange one then, and harms nobody.
    let is_left = |file: &Unjudged| {
        let old = [A, B, HALF].map(|block| [block.to_string(), format!("{block}.meta")]);
        matches!(file, Unjudged::Strange(name) if old.as_flattened().contains(name))
    };
    let mut told: Vec<Unjudged> = unjudged(&store).into_iter().filter(|file| !is_left(file)).collect();
    told.sort();
    let half = Unjudged::Sidecar(CopyId { block: HALF, generation: 2 });
    let strange = |name: String| Unjudged::Strange(name);
    let expected = vec![
        half,
        strange(ALONE.to_string()),
        strange(SPOILT.to_string()),
        strange(format!("{SPOILT}.meta")),
    ];
    match (copies(&store), told) {
        (copies, told) if copies == [(A, 1), (B, 7)] && told == expected => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn a_store_of_version_1_is_taken_over_with_all_its_blocks() {
    let bench = old_store();
    check(&bench.disk).unwrap();
    assert_eq!(unjudged(&bench.store()).len(), 4, "nothing else is left");
    let id = bench.store().identity().store;
    assert_eq!(bench.store().identity().store, id, "once");
    let reader = bench.store().reader(B, 7).unwrap();
    assert_eq!(reader.meta().birth, Stamp::default(), "nobody knows when it was born");
}

fn first_loss(configure: impl Fn(&PowerSwitch)) -> Option<String> {
    let bench = old_store();
    let before = bench.power.calls();
    open(&bench.disk).unwrap();
    let calls = bench.power.calls() - before;
    assert!(calls > 256, "{calls}");
    // Folders that hold nothing are synced, and nothing else happens: cuts there are all alike.
    let near = |call: u64| call < 3 || call + 300 > calls || (165..=215).contains(&call);
    (0..=calls).filter(|&call| near(call)).find_map(|cut| {
        let bench = old_store();
        configure(&bench.power);
        bench.power.cut_after(cut);
        let _ = open(&bench.disk);
        bench.power.restart();
        bench.power.heed_all();
        check(&bench.disk.reopen()).err().map(|why| format!("cut after {cut}: {why}"))
    })
}

#[test]
fn a_power_cut_during_it_loses_nothing() {
    assert_eq!(first_loss(|_| {}), None);
    for seed in 0..6 {
        assert_eq!(first_loss(|power| power.survive_at_random(seed)), None, "seed {seed}");
    }
}

#[test]
fn no_sync_of_a_migration_is_superfluous() {
    assert!(first_loss(|power| power.ignore(SyncPoint::Migrated)).is_some());
}

#[test]
fn a_sidecar_of_an_unknown_version_keeps_an_old_store_as_it_is() {
    let bench = old_store();
    bench.disk.damage(&old_sidecar(B), |bytes| bytes[8] = 77).unwrap();
    let refused = open(&bench.disk);
    assert!(matches!(refused, Err(StoreError::UnknownVersion { block: B, .. })), "{refused:?}");
    bench.disk.damage(&old_sidecar(B), |bytes| bytes[8] = 2).unwrap();
    check(&bench.disk).unwrap();
}
