//! The formats on disk stay as they are, and a folder stays whose it is.

use super::*;
use model::Part;

/// Written by version 2. A difference means that old stores cannot be read any more.
const GOLDEN: &[u8] = include_bytes!("sidecar-v2.bin");

const PARITY: BlockId = BlockId(0x00ff_1122_3344_5566_7788_99aa_bbcc_ddee);

fn facts() -> NewBlock {
    NewBlock {
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
    let mut writer = store.writer(PARITY, 5).unwrap();
    writer.write(0, &bytes, None).unwrap();
    writer.finish(facts(), None).unwrap();
    assert_eq!(file(&bench.disk, &sidecar_path(PARITY)), GOLDEN);

    let reader = store.reader(PARITY).unwrap();
    let meta = reader.meta();
    assert_eq!((meta.block, meta.generation, meta.alpha), (PARITY, 5, 2));
    assert_eq!((&meta.part, &meta.note), (&facts().part, &facts().note));
}

#[test]
fn a_folder_belongs_to_one_node_one_cluster_and_one_process() {
    let bench = Bench::new();
    let disk = || as_dyn(&bench.disk);
    assert!(matches!(
        Store::open(disk(), NodeId(8)),
        Err(StoreError::WrongNode { expected: NodeId(8), found: NODE })
    ));
    assert!(matches!(Store::format(&disk(), NODE), Err(StoreError::AlreadyFormatted)));

    let store = bench.store();
    assert!(matches!(Store::open(disk(), NODE), Err(StoreError::InUse)));
    assert!(matches!(Store::format(&disk(), NODE), Err(StoreError::InUse)));
    assert_eq!(store.identity(), Identity { node: NODE, cluster: None });
    store.join(ClusterId(5)).unwrap();
    store.join(ClusterId(5)).unwrap();
    assert!(matches!(store.join(ClusterId(6)), Err(StoreError::WrongCluster { .. })));
    let writer = store.writer(PARITY, 1).unwrap();
    drop(store);
    assert!(matches!(Store::open(disk(), NODE), Err(StoreError::InUse)), "a writer still uses it");
    drop(writer);
    assert_eq!(bench.store().identity().cluster, Some(ClusterId(5)));
}

#[test]
fn a_folder_without_or_with_a_broken_identity_is_not_used() {
    let power = PowerSwitch::new();
    let empty = as_dyn(&CrashDisk::new(&power));
    assert!(matches!(Store::open(Arc::clone(&empty), NODE), Err(StoreError::NotFormatted)));
    assert!(empty.list(Path::new("")).unwrap().is_empty());

    let bench = Bench::new();
    put(&bench.store(), PARITY, 1, b"bytes").unwrap();
    bench.disk.damage(Path::new("identity"), |bytes| bytes[20] ^= 1).unwrap();
    assert!(matches!(Store::open(as_dyn(&bench.disk), NODE), Err(StoreError::BadIdentity { .. })));
    assert!(matches!(Store::format(&as_dyn(&bench.disk), NODE), Err(StoreError::AlreadyFormatted)));
    bench.disk.remove(Path::new("identity")).unwrap();
    assert!(matches!(Store::format(&as_dyn(&bench.disk), NODE), Err(StoreError::AlreadyFormatted)));
    assert_eq!(file(&bench.disk, &data_path(PARITY)), b"bytes");
}

#[test]
fn the_identity_is_a_text_that_stays() {
    let bench = Bench::new();
    let alone = format!("stripeline-store 1\nnode {}\ncluster none\n", NODE.0);
    let is = |text: &str| String::from_utf8(file(&bench.disk, Path::new("identity"))).unwrap() == text;
    assert!(is(&format!("{alone}crc32c {:08x}\n", wire::frame::crc32c(alone.as_bytes()))));
    bench.store().join(ClusterId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)).unwrap();
    assert!(is("stripeline-store 1\nnode 7\ncluster 00112233445566778899aabbccddeeff\ncrc32c f097421e\n"));
}
