//! Files of catalogs, and backups, are checked without a coordinator: they are only read, and what is wrong with them is named.

#![allow(clippy::unwrap_used)] // a test may

use catalog::{
    Catalog, CatalogError, CommittedBlock, Examined, FIRST_GENERATION, FileKind, NewPut, NewStripe,
    PlannedBlock, Purpose, PutEnd, Staged, examine,
};
use disk::{CrashDisk, Disk, PowerSwitch, SyncPoint};
use model::{BlockCopy, BlockId, ClusterId, FlowId, MemberState, NodeId, PutId, StripeId, Sums};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A backup that a program of format 7 wrote.
const BACKUP_7: &str = include_str!("../../golden/backup-v7.hex");

const FILE: &str = "catalog.redb";
const NODES: [NodeId; 4] = [NodeId(1), NodeId(2), NodeId(3), NodeId(4)];
const BYTES: u64 = 10;

fn new_disk() -> CrashDisk {
    CrashDisk::new(&PowerSwitch::new())
}

fn put(catalog: &Catalog, id: u128) -> BlockId {
    let (put, block) = (PutId(id), BlockId(id << 64 | 0xb10c));
    let name = format!("object-{id}");
    let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers: None };
    catalog.begin_put(&new).unwrap();
    let (sums, nodes) = (Sums::default(), NODES[..3].to_vec());
    let planned = PlannedBlock {
        block,
        index: 0,
        stored_bytes: BYTES,
        sums,
        last: true,
        nodes: nodes.clone(),
        flow: FlowId(id),
    };
    catalog.plan_block(put, &planned, 0, 100).unwrap();
    let committed = CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: BTreeMap::new() };
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };
    catalog.commit_put(put, &[committed], BYTES, [0; 32], end).unwrap();
    block
}

/// Node rows, objects 1 … 5, the first in a stripe with parity 9; and a backup of it.
fn made() -> (CrashDisk, Vec<BlockId>, Vec<u8>) {
    let disk = new_disk();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let catalog = Catalog::open(&shared, ClusterId(1)).unwrap();
    catalog.begin_term(77, 0).unwrap();
    for node in NODES {
        let row = catalog::rows::NodeRow {
            control_addr: "a:1".to_owned(),
            data_addr: "a:2".to_owned(),
            rack: "r".to_owned(),
            store: model::StoreId(u128::from(node.0)),
            incarnation: model::Incarnation(1),
            host: String::new(),
        };
        catalog.register_node(node, &row, None, None).unwrap();
    }
    let blocks: Vec<BlockId> = (1..=5).map(|id| put(&catalog, id)).collect();
    let (data, parity) = (blocks[0], BlockId(9 << 64 | 0xb10c));
    let purpose = Purpose::Encode(NewStripe {
        stripe: StripeId(3),
        code: "rs-1+1".to_owned(),
        block_bytes: BYTES,
        members: vec![MemberState::Stored(data), MemberState::Stored(parity)],
        data: 1,
        kept: vec![BlockCopy { block: data, node: NODES[0], generation: FIRST_GENERATION }],
    });
    let intent = catalog.begin(FlowId(9), 1, &purpose, &[(parity, NODES[3])], 0).unwrap();
    let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by: None };
    catalog.commit(&intent, &[staged], &NODES.into(), 0).unwrap();
    let mut backup = Vec::new();
    catalog
        .backup(100, |piece| {
            backup.extend(piece);
            true
        })
        .unwrap();
    catalog.close();
    (disk, [blocks, vec![parity]].concat(), backup)
}

fn check(disk: &CrashDisk, file: &str) -> Result<Examined, CatalogError> {
    let scratch: Arc<dyn Disk> = Arc::new(new_disk());
    let before = content(disk, file);
    let names = |disk: &CrashDisk| {
        let entries = disk.list(Path::new("")).unwrap().into_iter();
        entries.map(|entry| entry.name).collect::<BTreeSet<_>>()
    };
    let files = names(disk);
    let examined = examine(disk, Path::new(file), &scratch);
    assert!(content(disk, file) == before && names(disk) == files, "it is only read");
    examined
}

fn content(disk: &CrashDisk, file: &str) -> Vec<u8> {
    let file = disk.open(Path::new(file)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn with_file(bytes: &[u8]) -> CrashDisk {
    let disk = new_disk();
    let file = disk.create_new(Path::new("file")).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    disk
}

fn check_bytes(bytes: &[u8]) -> Result<Examined, CatalogError> {
    check(&with_file(bytes), "file")
}

fn names(examined: &Examined) -> Vec<(&str, bool)> {
    examined.touched.iter().map(|touched| (touched.name.as_str(), touched.is_readable)).collect()
}

#[test]
fn a_catalog_that_is_as_it_was_written_is_sound_under_any_name() {
    let (disk, _, backup) = made();
    let examined = check(&disk, FILE).unwrap();
    assert!(examined.is_sound(), "{examined:?}");
    assert_eq!((examined.kind, examined.format, examined.has_checksums), (FileKind::Catalog, Some(8), true));
    assert!(examined.rows > 20 && !examined.is_in_use && examined.touched.is_empty(), "{examined:?}");
    disk.rename(Path::new(FILE), Path::new("catalog.redb.damaged-1")).unwrap();
    assert_eq!(check(&disk, "catalog.redb.damaged-1").unwrap(), examined);
    assert_eq!(check_bytes(&content(&disk, "catalog.redb.damaged-1")).unwrap(), examined);
    let examined = check_bytes(&backup).unwrap();
    assert!(examined.is_sound(), "{examined:?}");
    assert_eq!((examined.kind, examined.format, examined.has_checksums), (FileKind::Backup, Some(8), true));
}

#[test]
fn a_catalog_that_is_open_is_checked_and_said_to_be() {
    let (disk, ..) = made();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    // A real disk has it, and this one locks names alone.
    disk.create_new(Path::new("catalog.redb.lock")).unwrap();
    let catalog = Catalog::open(&shared, ClusterId(1)).unwrap();
    let examined = check(&disk, FILE).unwrap();
    assert!(examined.is_in_use && examined.is_sound() && !examined.has_moved, "{examined:?}");
    catalog.close();
    assert!(!check(&disk, FILE).unwrap().is_in_use);
}

#[test]
fn a_flipped_bit_is_found_wherever_a_row_stands_and_what_it_touches_is_named() {
    let (disk, blocks, _) = made();
    let sound = content(&disk, FILE);
    // A bit of the key, and one of the value.
    for (block, distance) in blocks.iter().flat_map(|block| [(block, 3), (block, 17)]) {
        let key = block.to_bytes();
        let places = (0..sound.len() - 32).filter(|at| sound[*at..].starts_with(&key));
        let (mut found, mut touched) = (0, BTreeSet::new());
        for at in places {
            let mut bytes = sound.clone();
            bytes[at + distance] ^= 4;
            let examined = check_bytes(&bytes).unwrap();
            // Pages of earlier commits are no part of the catalog any more.
            if !examined.is_sound() {
                found += 1;
                assert!(examined.damage.count >= examined.damage.findings.len() as u64);
                touched.extend(names(&examined).into_iter().map(|(name, is)| (name.to_owned(), is)));
            }
        }
        assert!(found > 0, "{block}");
        let number = block.0 >> 64;
        let expected = match number {
            9 => ("object-1".to_owned(), true),
            _ => (format!("object-{number}"), false),
        };
        assert!(touched.contains(&expected), "{block}: {touched:?}");
    }
}

#[test]
fn damage_of_the_header_or_of_everything_is_told_and_is_no_panic() {
    let (disk, ..) = made();
    let sound = content(&disk, FILE);
    for at in [0, 3, 9, 40, 64, 200] {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        // Of the header's two halves one suffices.
        let _ = check_bytes(&bytes).unwrap();
    }
    let mut bytes = sound.clone();
    bytes[9..4096].fill(0);
    assert!(!check_bytes(&bytes).unwrap().is_sound());
    bytes[9..].fill(0xa5);
    assert!(!check_bytes(&bytes).unwrap().is_sound());
    for length in [64, 4096, sound.len() / 2] {
        assert!(!check_bytes(&sound[..length]).unwrap().is_sound(), "cut to {length} bytes");
    }
}

#[test]
fn a_backup_that_was_cut_off_or_changed_is_blamed() {
    let (.., backup) = made();
    for cut in [12, 44, backup.len() / 2, backup.len() - 40, backup.len() - 1] {
        let examined = check_bytes(&backup[..cut]).unwrap();
        assert_eq!(examined.kind, FileKind::Backup);
        let first = examined.damage.findings.first().unwrap();
        assert!(first.starts_with("the backup: ") && !first.contains("nothing was changed"), "{first}");
    }
    let name = b"object-2";
    let at = backup.windows(name.len()).position(|window| window == name).unwrap();
    let mut changed = backup.clone();
    changed[at + name.len() + 3] ^= 1;
    let examined = check_bytes(&changed).unwrap();
    assert!(examined.damage.findings[0].starts_with("the backup: "), "{examined:?}");
    let row = |finding: &String| finding.starts_with("row objects") && finding.contains("checksum");
    assert!(examined.damage.findings.iter().any(row), "the row is named: {examined:?}");
    assert_eq!(names(&examined), [("object-2", false)], "its blocks tell its name");
    (0..backup.len()).step_by(7).for_each(|at| {
        let mut changed = backup.clone();
        changed[at] ^= 0x20;
        assert!(!check_bytes(&changed).is_ok_and(|examined| examined.is_sound()), "byte {at}");
    });
}

#[test]
fn formats_of_before_are_checked_and_said_to_have_no_checksums() {
    let digits: Vec<u8> = BACKUP_7.trim().bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    let mut backup: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let examined = check_bytes(&backup).unwrap();
    assert_eq!((examined.kind, examined.format, examined.has_checksums), (FileKind::Backup, Some(6), false));
    assert!(examined.rows > 0);
    *backup.last_mut().unwrap() ^= 1;
    let examined = check_bytes(&backup).unwrap();
    assert!(!examined.is_sound() && !examined.has_checksums, "{examined:?}");
    // Another version that is whole is not damaged.
    backup[8] = 99;
    let end = backup.len() - 32;
    let hash = blake3::hash(&backup[..end]);
    backup[end..].copy_from_slice(hash.as_bytes());
    assert!(matches!(check_bytes(&backup), Err(CatalogError::Format { found: 99, .. })));
}

#[test]
fn what_is_no_catalog_is_not_called_damaged() {
    for bytes in [&b""[..], b"words", b"some longer text, of several words", &[0; 5000]] {
        let refused = check_bytes(bytes).unwrap_err();
        assert!(refused.to_string().contains("is no catalog and no backup"), "{refused}");
    }
    let scratch: Arc<dyn Disk> = Arc::new(new_disk());
    let refused = examine(&new_disk(), Path::new(FILE), &scratch).unwrap_err();
    assert!(matches!(refused, CatalogError::Failed(_)), "{refused}");
}

#[test]
fn a_scratch_disk_that_is_full_is_an_error_and_no_damage() {
    let (disk, ..) = made();
    let bytes = content(&disk, FILE).len() as u64;
    let mut refused = 0;
    for capacity in (0..20).map(|eighths| bytes * eighths / 8) {
        let scratch = new_disk();
        scratch.set_capacity(capacity);
        match examine(&disk, Path::new(FILE), &(Arc::new(scratch) as Arc<dyn Disk>)) {
            Ok(examined) => assert!(examined.is_sound(), "{capacity} bytes: {examined:?}"),
            Err(error) => {
                assert!(!error.is_damage(), "{capacity} bytes: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_backup_is_refused_for_a_row_that_fails_its_check_and_names_it() {
    let (disk, blocks, _) = made();
    let (sound, key) = (content(&disk, FILE), blocks[1].to_bytes());
    let mut named = 0;
    for at in (0..sound.len() - 32).filter(|at| sound[*at..].starts_with(&key)) {
        let disk = new_disk();
        let file = disk.create_new(Path::new(FILE)).unwrap();
        let mut bytes = sound.clone();
        // The key itself: the row is named by the key that it has now.
        bytes[at + 3] ^= 4;
        let now = BlockId::from_slice(&bytes[at..at + key.len()]).unwrap();
        file.write_at(0, &bytes).unwrap();
        let catalog = Catalog::open(&(Arc::new(disk) as Arc<dyn Disk>), ClusterId(1)).unwrap();
        match catalog.backup(100, |_| true) {
            Err(CatalogError::DamagedRow { table: "blocks", key, .. }) if key == now.to_string() => {
                named += 1;
            }
            Err(error) => assert!(error.is_damage(), "{error}"),
            Ok(()) => {}
        }
        catalog.close();
    }
    assert!(named > 0);
}
