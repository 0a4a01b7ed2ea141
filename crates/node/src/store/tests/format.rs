//! The formats on disk stay as they are, and a folder stays whose it is.

use super::*;
use model::{Part, Term};

/// Written by version 3. A difference means that old stores cannot be read any more.
const GOLDEN: &[u8] = include_bytes!("sidecar-v3.bin");

/// The same, written by version 2.
const GOLDEN_V2: &[u8] = include_bytes!("sidecar-v2.bin");

const PARITY: BlockId = BlockId(0x00ff_1122_3344_5566_7788_99aa_bbcc_ddee);

fn facts() -> NewBlock {
    NewBlock {
        birth: Stamp { term: Term { number: 3, word: u64::MAX }, change: 300 },
        stored_bytes: 70_000,
        alpha: 2,
        symbol_bytes: 2 * CHUNK_BYTES as u64,
        part: Some(Part { name: "höhe/x".to_owned(), version: 300, offset: 1 << 40, last: true }),
        note: b"a note of any length, which the store does not read".to_vec(),
    }
}

#[test]
fn sidecars_are_stable() {
    let bench = Bench::new();
    let store = bench.store();
    let bytes = content(6, 70_000);
    let mut writer = store.writer(PARITY, 5, 70_000).unwrap();
    writer.write(0, &bytes, None).unwrap();
    writer.finish(facts(), None).unwrap();
    assert_eq!(file(&bench.disk, &sidecar_path_of(PARITY, 5)), GOLDEN);

    let reader = store.reader(PARITY, 5).unwrap();
    let meta = reader.meta();
    assert_eq!((meta.block, meta.generation, meta.alpha), (PARITY, 5, 2));
    assert_eq!((&meta.part, &meta.note, meta.birth), (&facts().part, &facts().note, facts().birth));

    // Copies of the version before are read, and have no birth.
    let old = bench.disk.clone();
    old.damage(&sidecar_path_of(PARITY, 5), |bytes| *bytes = GOLDEN_V2.to_vec()).unwrap();
    assert_eq!(store.verify(PARITY, 5, |_| ()).unwrap(), Verdict::Whole);
    let reader = store.reader(PARITY, 5).unwrap();
    let found = BlockMeta { birth: facts().birth, ..reader.meta().clone() };
    assert_eq!((reader.meta().birth, &found), (Stamp::default(), meta));
}

#[test]
fn a_folder_belongs_to_one_node_one_cluster_and_one_process() {
    let bench = Bench::new();
    let disk = || as_dyn(&bench.disk);
    assert!(matches!(
        Store::open(disk(), NodeId(8), 0),
        Err(StoreError::WrongNode { expected: NodeId(8), found: NODE })
    ));
    assert!(matches!(Store::format(&disk(), NODE), Err(StoreError::AlreadyFormatted)));

    let store = bench.store();
    assert!(matches!(Store::open(disk(), NODE, 0), Err(StoreError::InUse)));
    assert!(matches!(Store::format(&disk(), NODE), Err(StoreError::InUse)));
    let identity = store.identity();
    assert_eq!((identity.node, identity.cluster, identity.accepted), (NODE, None, None));
    store.welcomed(ClusterId(5)).unwrap();
    store.welcomed(ClusterId(5)).unwrap();
    assert!(matches!(store.welcomed(ClusterId(6)), Err(StoreError::WrongCluster { .. })));
    let writer = store.writer(PARITY, 1, 0).unwrap();
    drop(store);
    assert!(matches!(Store::open(disk(), NODE, 0), Err(StoreError::InUse)), "a writer still uses it");
    drop(writer);
    let again = bench.store().identity();
    assert_eq!((again.cluster, again.store), (Some(ClusterId(5)), identity.store), "for good");
}

#[test]
fn a_folder_without_or_with_a_broken_identity_is_not_used() {
    let power = PowerSwitch::new();
    let empty = as_dyn(&CrashDisk::new(&power));
    assert!(matches!(Store::open(Arc::clone(&empty), NODE, 0), Err(StoreError::NotFormatted)));
    assert!(empty.list(Path::new("")).unwrap().is_empty());

    let bench = Bench::new();
    put(&bench.store(), PARITY, 1, b"bytes").unwrap();
    bench.disk.damage(Path::new("identity"), |bytes| bytes[20] ^= 1).unwrap();
    assert!(matches!(open(&bench.disk), Err(StoreError::BadIdentity { .. })));
    assert!(matches!(Store::format(&as_dyn(&bench.disk), NODE), Err(StoreError::AlreadyFormatted)));
    bench.disk.remove(Path::new("identity")).unwrap();
    assert!(matches!(Store::format(&as_dyn(&bench.disk), NODE), Err(StoreError::AlreadyFormatted)));
    assert_eq!(file(&bench.disk, &data_path(PARITY)), b"bytes");
}

#[test]
fn the_identity_is_a_text_that_says_what_happened() {
    let bench = Bench::new();
    let text = || String::from_utf8(file(&bench.disk, Path::new("identity"))).unwrap();
    let has = |line: &str| text().lines().any(|l| l == line);
    assert!(
        text().starts_with(&format!("stripeline-store 2\nprogram {}\nnode 7\n", env!("CARGO_PKG_VERSION")))
    );
    assert!(has("cluster none") && has("accepted none") && has("tried none"));
    let store = bench.store();
    let word = format!("{:016x}", store.incarnation().0);
    store.try_start().unwrap();
    assert!(has("accepted none") && has(&format!("tried {word}")));
    store.welcomed(ClusterId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)).unwrap();
    assert!(has("cluster 00112233445566778899aabbccddeeff"));
    assert!(has(&format!("accepted {word}")) && has("tried none"));
}

#[test]
fn a_store_of_an_unknown_version_is_refused_by_name_and_left_as_it_is() {
    let bench = Bench::new();
    put(&bench.store(), PARITY, 1, b"bytes").unwrap();
    let later = |bytes: &mut Vec<u8>| bytes["stripeline-store ".len()] = b'3';
    bench.disk.damage(Path::new("identity"), later).unwrap();
    let before = file(&bench.disk, Path::new("identity"));
    let Err(refused @ StoreError::UnknownStore { .. }) = open(&bench.disk) else { panic!() };
    let said = refused.to_string();
    let reader = format!("stripeline {}", env!("CARGO_PKG_VERSION"));
    assert!(said.contains("version 3") && said.contains(&reader), "{said}");
    assert!(matches!(Store::format(&as_dyn(&bench.disk), NODE), Err(StoreError::AlreadyFormatted)));
    assert!(file(&bench.disk, Path::new("identity")) == before);
    assert_eq!(file(&bench.disk, &data_path(PARITY)), b"bytes");
}
