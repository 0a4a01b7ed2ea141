//! Blocks of a DataNode, read where they lie.

use crate::datanode::{BYTES_PER_SUM, Datanode, POOL, STAMP, listing};
use exec::{BlockSource, BlockStore};
use flow::bound::BlockRead;
use gf::{CHUNK_BYTES, Fingerprint};
use model::hdfs::PoolMark;
use model::{Cause, Fault, FlowId, StoredCopy};
use node::hdfs::HdfsStore;
use node::hdfs::folders::{Folders, FoldersError};
use std::fs;
use std::path::PathBuf;

const BLOCK: i64 = -9_223_372_036_854_775_792;

/// Any one: nobody is asked about it.
const FLOW: FlowId = FlowId(1);

fn noise(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| ((i * 7_919) >> 3) as u8).collect()
}

fn store(datanodes: &[&Datanode]) -> HdfsStore {
    let paths: Vec<PathBuf> = datanodes.iter().map(|datanode| datanode.path()).collect();
    HdfsStore::new(Folders::at(&paths).unwrap(), None)
}

fn read(block: i64, generation: u64, stored_bytes: usize) -> BlockRead {
    let block = PoolMark::of(POOL).block(block);
    StoredCopy { block, generation, stored_bytes: stored_bytes as u64 }.into()
}

fn open(store: &HdfsStore, block: i64, stored_bytes: usize) -> Box<dyn BlockSource> {
    store.open(&read(block, STAMP, stored_bytes), FLOW).unwrap_or_else(|fault| panic!("{fault}"))
}

fn refused(store: &HdfsStore, read: &BlockRead) -> Fault {
    store.open(read, FLOW).err().unwrap()
}

/// By the definition: of each chunk, the last one as long as it is.
fn fingerprints(bytes: &[u8]) -> Vec<Fingerprint> {
    bytes.chunks(CHUNK_BYTES).map(|chunk| gf::kernels().fingerprint(chunk)).collect()
}

#[test]
fn any_range_is_read_and_checked_whatever_the_checksums() {
    let datanode = Datanode::new(1);
    let bytes = noise(2 * CHUNK_BYTES + 1_234);
    for (place, (kind, per_sum)) in
        [(2, 512), (1, 512), (2, 1_000), (1, 4_096), (2, 1 << 17)].into_iter().enumerate()
    {
        let block = BLOCK + place as i64;
        datanode.put_with(block, &bytes, kind, per_sum);
        let store = store(&[&datanode]);
        let source = open(&store, block, bytes.len());
        assert_eq!(source.stored_bytes(), bytes.len() as u64);
        for range in
            [0..bytes.len(), 0..1, 511..513, 512..1_024, CHUNK_BYTES..2 * CHUNK_BYTES, 65_000..bytes.len()]
        {
            let mut out = vec![0; range.len()];
            source.read_at(range.start as u64, &mut out).unwrap();
            assert!(out == bytes[range.clone()], "{range:?}, type {kind}, {per_sum}");
        }
        assert!(source.read_at(bytes.len() as u64 - 1, &mut [0; 2]).is_err(), "beyond its end");
    }
}

#[test]
fn fingerprints_are_those_of_the_chunks_whether_they_were_just_read_or_not() {
    let (datanode, bytes) = (Datanode::new(1), noise(3 * CHUNK_BYTES + 100));
    datanode.put(BLOCK, &bytes);
    let (store, expected) = (store(&[&datanode]), fingerprints(&bytes));
    let source = open(&store, BLOCK, bytes.len());
    assert!(!source.keeps_fingerprints());
    let made = |first: usize, count: usize| {
        let mut out = vec![Fingerprint::ZERO; count];
        source.fingerprints(first as u64, &mut out).unwrap();
        out
    };
    assert_eq!(made(0, 4), expected, "nothing was read");
    let mut out = vec![0; 2 * CHUNK_BYTES];
    source.read_at(CHUNK_BYTES as u64, &mut out).unwrap();
    assert_eq!(made(0, 4), expected, "some of it was read");
    source.read_at(100, &mut out).unwrap();
    assert_eq!(made(1, 3), expected[1..], "what was read were no chunks");
    assert_eq!(made(4, 1), [Fingerprint::ZERO], "beyond its end");
}

#[test]
fn what_cannot_be_lent_has_its_cause() {
    let (datanode, bytes) = (Datanode::new(1), noise(5_000));
    datanode.put(BLOCK, &bytes);
    let store = store(&[&datanode]);
    let cause = |read: &BlockRead| refused(&store, read).cause;
    assert_eq!(cause(&read(BLOCK + 1, STAMP, 5_000)), Cause::NotFound, "another block");
    assert_eq!(cause(&read(BLOCK, STAMP + 1, 5_000)), Cause::NotFound, "another stamp");
    assert_eq!(cause(&read(BLOCK, STAMP, 4_999)), Cause::NotFound, "another length");
    let other = StoredCopy { block: PoolMark::of("BP-2").block(BLOCK), ..read(BLOCK, STAMP, 5_000).copy };
    assert_eq!(cause(&other.into()), Cause::NotFound, "another pool");

    // A byte that flipped is found where it is read, and nowhere else.
    let mut flipped = bytes.clone();
    flipped[3 * BYTES_PER_SUM + 7] ^= 0x10;
    fs::write(datanode.block(BLOCK), &flipped).unwrap();
    let source = open(&store, BLOCK, 5_000);
    source.read_at(0, &mut vec![0; 3 * BYTES_PER_SUM]).unwrap();
    let fault = source.read_at(2_047, &mut [0; 1]).unwrap_err();
    assert_eq!((fault.cause, fault.block), (Cause::CorruptBlock, Some(PoolMark::of(POOL).block(BLOCK))));
    assert!(fault.detail.contains("from 1536 on"), "{fault}");
    let mut made = [Fingerprint::ZERO];
    assert_eq!(source.fingerprints(0, &mut made).unwrap_err().cause, Cause::CorruptBlock);

    for (what, meta) in [
        ("no head", vec![0, 1, 2]),
        ("another version", vec![0, 2, 2, 0, 0, 2, 0]),
        ("no checksums", [vec![0, 1, 0, 0, 0, 2, 0], vec![0; 40]].concat()),
        ("checksums of nothing", [vec![0, 1, 2, 0, 0, 0, 0], vec![0; 40]].concat()),
        ("one checksum too few", [vec![0, 1, 2, 0, 0, 2, 0], vec![0; 36]].concat()),
    ] {
        fs::write(datanode.meta(BLOCK, STAMP), meta).unwrap();
        assert_eq!(cause(&read(BLOCK, STAMP, 5_000)), Cause::Disk, "{what}: that says nothing of the bytes");
    }
    assert_eq!(store.corrupt(), 2);
    fs::remove_file(datanode.meta(BLOCK, STAMP)).unwrap();
    assert_eq!(cause(&read(BLOCK, STAMP, 5_000)), Cause::NotFound, "no .meta");
}

#[test]
fn a_datanode_has_several_folders_and_those_of_another_are_refused() {
    let (first, second) = (Datanode::new(1), Datanode::new(1));
    let bytes = noise(700);
    second.put(BLOCK, &bytes);
    let store = store(&[&first, &second]);
    let mut out = vec![0; 700];
    open(&store, BLOCK, 700).read_at(0, &mut out).unwrap();
    assert_eq!(out, bytes);

    let refused = |paths: &[PathBuf]| Folders::at(paths).unwrap_err();
    assert!(matches!(refused(&[]), FoldersError::None));
    let another = [first.path(), Datanode::new(2).path()];
    assert!(matches!(refused(&another), FoldersError::NotOfADatanode { .. }), "gone already");
    let two = Datanode::new(2);
    assert!(matches!(refused(&[first.path(), two.path()]), FoldersError::OfAnother { .. }));
    fs::write(two.path().join("current/VERSION"), "storageType=NAME_NODE\n").unwrap();
    assert!(refused(&[two.path()]).to_string().contains("NAME_NODE"));
    fs::write(two.path().join("current/VERSION"), "storageType=DATA_NODE\ndatanodeUuid=DS-1-2\n").unwrap();
    assert!(refused(&[two.path()]).to_string().contains("no UUID"));
}

#[test]
fn nothing_is_written_into_the_datanodes_folders() {
    let (datanode, bytes) = (Datanode::new(1), noise(100_000));
    datanode.put(BLOCK, &bytes);
    let before = listing(&datanode.path());
    let store = store(&[&datanode]);
    let source = open(&store, BLOCK, bytes.len());
    source.will_need(0..100_000);
    source.read_at(0, &mut vec![0; 100_000]).unwrap();
    store.report_corrupt(PoolMark::of(POOL).block(BLOCK), STAMP);
    drop(source);
    assert_eq!(listing(&datanode.path()), before);
}
