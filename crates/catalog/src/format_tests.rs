//! The bytes that catalogs and backups are made of stay as they are.

use crate::backend::{Backend, Redb, RowsMut, Scan};
use crate::error::Result;
use crate::rows::{
    AuditRow, BucketRow, BudgetsRow, CATALOG_FORMAT, CandidateRow, ClockRow, CompactionRow, DamageRow,
    DeadKey, DeadRow, Difference, DisksRow, Doubt, DoubtRow, EncodingRow, EndedPutRow, ForgottenRow,
    GatherTerms, GatheredBlock, GatheredRow, GatheringRow, HeardRow, HeldKey, HeldRow, HistoryRow,
    HoldersRow, IntentRow, JobRow, LackRow, LeavingRow, LinksRow, MarkRow, MetaKey, MetaRow, NewStripe,
    NodeRow, NodeTaskKey, NodeTaskRow, ObjectRow, OrderRow, PlannedRow, PositionRow, Purpose, PutBlockKey,
    PutBlockRow, PutRow, Recoding, RecoveryRow, RepairRow, ReturnsRow, SafeModeRow, SettledRow, StripeRow,
    TABLES, TaskRow, TermRow, ThrottleRow,
};
use crate::soundness::checksum::MARK;
use crate::table::{Change, Read, decode_of_before};
use crate::{Catalog, examine, restore};
use disk::{CrashDisk, Disk, PowerSwitch};
use gf::Fingerprint;
use model::{
    Assign, BlockCopy, BlockFacts, BlockId, ClusterId, Flaw, Flawed, FlowId, Incarnation, Location,
    MemberState, NodeId, Part, PutId, Reason, Stamp, StoreId, StripeId, StripePlace, Sums, Switch, Term,
};
use std::fmt::Write;
use std::sync::Arc;

/// A row on each line: its table, key and value. Written by format 8. A difference means that catalogs
/// of before cannot be read any more: make a new version of the row, and let this line stay readable.
const ROWS: &str = include_str!("../golden/rows-v8.txt");

/// The same rows of the format before, which had no checksums.
const ROWS_7: &str = include_str!("../golden/rows-v7.txt");

/// A backup of the rows that outlive their flows. Written by version 8.
const BACKUP: &str = include_str!("../golden/backup-v8.hex");

/// The same of catalogs of format 7.
const BACKUP_7: &str = include_str!("../golden/backup-v7.hex");

/// A backup of the version before, which had no index of what lacks copies.
const BACKUP_6: &str = include_str!("../golden/backup-v6.hex");

/// A backup of the version before, with the same in it but for the bucket, the archival of many objects, the compaction, and the
/// index of what is dead.
const BACKUP_5: &str = include_str!("../golden/backup-v5.hex");

/// The same of the version before, whose nodes had no hosts.
const BACKUP_4: &str = include_str!("../golden/backup-v4.hex");

/// The same of the version before, which kept no records.
const BACKUP_3: &str = include_str!("../golden/backup-v3.hex");

const DATA: BlockId = BlockId(0x00ff_1122_3344_5566_7788_99aa_bbcc_ddee);
const PARITY: BlockId = BlockId(2);
const STRIPE: StripeId = StripeId(u128::MAX - 1);
const FLOW: FlowId = FlowId(0x1234);
const COPY: BlockCopy = BlockCopy { block: DATA, node: NodeId(7), generation: 300 };
const BIRTH: Stamp = Stamp { term: Term { number: 2, word: 78 }, change: 299 };

fn sums() -> Sums {
    Sums { digest: Some([7; 32]), fingerprint: Some(Fingerprint::from_bytes([9; 128])) }
}

fn part() -> Part {
    Part { name: "höhe/x".to_owned(), version: 300, offset: 1 << 40, last: true }
}

fn recovery(assign: Assign) -> JobRow {
    JobRow::RecoverNodes(RecoveryRow {
        nodes: vec![NodeId(5), NodeId(300)],
        moves: true,
        scheme: "pipeline".to_owned(),
        slice_bytes: 32 << 10,
        verify: true,
        parallel: 64,
        assign,
        requestors: vec![NodeId(1)],
    })
}

fn stripe() -> StripeRow {
    let members = [MemberState::Stored(DATA), MemberState::Zero, MemberState::Stored(PARITY)].to_vec();
    StripeRow { code: "rs-2+1".to_owned(), block_bytes: 64 << 20, members }
}

fn links() -> LinksRow {
    let row = vec![None, Some(1_000.5)];
    LinksRow {
        nodes: Some(vec![1, 300]),
        bandwidth: Some(vec![row.clone(), row.clone()]),
        up: Some(row),
        down: None,
    }
}

fn audit() -> AuditRow {
    AuditRow {
        at_unix_ms: 1_700_000_000_000,
        blocks: vec![DATA],
        flow: FLOW,
        attempt: 2,
        scheme: "pipeline".to_owned(),
        why: Some("fewest timeslots".to_owned()),
        driver: NodeId(7),
        helpers: vec![NodeId(1), NodeId(300)],
        predicted_bytes: 300,
        moved_bytes: 301,
        cross_rack_bytes: 5,
        timeslots: 1.5,
        predicted_s: Some(0.25),
        verified_us: 1_000,
        durable_us: 2_000,
        kept_slices: 3,
        differing: vec![Difference { from: 1, to: 7, predicted_bytes: 9, moved_bytes: 10 }],
        fault: None,
    }
}

/// Rows that every catalog has, of each variant one.
fn put_lasting(txn: &Change<'_>) -> Result<()> {
    let meta = MetaRow { cluster: ClusterId(5), unnamed: true, ..crate::meta(txn)? };
    txn.put(&MetaKey, &MetaRow { next_version: 301, next_job: 12, ..meta })?;
    let at = |port: u16| format!("10.0.0.7:{port}");
    let node = NodeRow {
        control_addr: at(7000),
        data_addr: at(7001),
        rack: "r1".to_owned(),
        store: StoreId(0x5704e),
        incarnation: Incarnation(0x3a54),
        host: "höst".to_owned(),
    };
    txn.put(&NodeId(7), &node)?;
    let object = ObjectRow {
        version: 300,
        object_bytes: 70_000,
        digest: Some([8; 32]),
        block_bytes: 64 << 20,
        blocks: vec![DATA],
        created_ms: 1_700_000_000_000,
    };
    txn.put(&"höhe/x".to_owned(), &object)?;
    txn.put(&"rebuilt".to_owned(), &ObjectRow { digest: None, ..object })?;
    let data = BlockFacts {
        stored_bytes: 70_000,
        sums: sums(),
        last_generation: 300,
        locations: vec![Location { node: NodeId(7), generation: 300 }],
        flawed: vec![
            Flawed { location: Location { node: NodeId(8), generation: 299 }, flaw: Flaw::Missing },
            Flawed { location: Location { node: NodeId(9), generation: 298 }, flaw: Flaw::Damaged },
        ],
        replicas: 3,
        part: Some(part()),
        stripe: Some(StripePlace { stripe: STRIPE, index: 0, is_virtual: false }),
        dead: false,
    };
    txn.put(&DATA, &data)?;
    let place = Some(StripePlace { stripe: STRIPE, index: 2, is_virtual: false });
    let parity = BlockFacts { sums: Sums::default(), part: None, stripe: place, dead: true, ..data };
    txn.put(&PARITY, &parity)?;
    txn.put(&HeldKey { node: NodeId(7), block: DATA }, &HeldRow { generation: 300 })?;
    txn.put(&STRIPE, &stripe())?;
    let archive = JobRow::Archive { name: "x".to_owned(), code: "rs-2+1".to_owned(), slice_bytes: 32 << 10 };
    let jobs = [
        archive,
        recovery(Assign::Balanced),
        recovery(Assign::LeastRecent),
        recovery(Assign::MPpr),
        recovery(Assign::LowestIndex),
    ];
    (0..).zip(&jobs).try_for_each(|(number, job)| txn.put::<JobRow>(&number, job))?;
    let gone = BlockCopy { block: BlockId(4), ..COPY };
    let candidate = CandidateRow {
        since_ms: 1_700_000_000_000,
        reason: Reason::Archived,
        stored_bytes: 70_000,
        is_ordered: true,
    };
    txn.put(&gone, &candidate)?;
    txn.put::<TermRow>(&1, &TermRow { word: 77, changes: 300 })?;
    txn.put(&MetaKey, &SafeModeRow { since_ms: 5, node: NodeId(7), heard: BIRTH })?;
    let stamp = Stamp { term: Term { number: 2, word: 78 }, change: 300 };
    txn.put(&MetaKey, &PositionRow { stamp, hash: [6; 32] })?;
    txn.put(&MetaKey, &links())?;
    txn.put::<AuditRow>(&9, &audit())?;
    txn.put(&NodeId(7), &LeavingRow { since_ms: 5 })?;
    txn.put(&"scrub".to_owned(), &TaskRow { switch: Switch::Pause })?;
    txn.put(&"repair-4".to_owned(), &TaskRow { switch: Switch::Stop })
}

/// Rows that end with a flow.
fn put_in_flight(txn: &Change<'_>) -> Result<()> {
    let put = PutId(0xabcd);
    let row = PutRow {
        name: "höhe/x".to_owned(),
        version: 300,
        block_bytes: 64 << 20,
        replicas: 3,
        lease_until_ms: 1_700_000_000_000,
        gathers: Some(terms()),
    };
    txn.put(&put, &row)?;
    let block = PutBlockRow {
        index: 1,
        stored_bytes: 70_000,
        sums: sums(),
        last: true,
        nodes: vec![NodeId(7), NodeId(300)],
        flow: FLOW,
    };
    txn.put(&PutBlockKey { put, block: DATA }, &block)?;
    txn.put(&COPY, &PlannedRow { since_ms: 1_700_000_000_000 })?;
    let purpose = Purpose::Repair { replaces: Some(NodeId(7)) };
    txn.put(&FLOW, &IntentRow { attempt: 2, purpose, copies: vec![COPY], birth: BIRTH })?;
    let StripeRow { code, block_bytes, members } = stripe();
    let new = NewStripe { stripe: STRIPE, code, block_bytes, members, data: 2, kept: vec![COPY] };
    let purpose = Purpose::Encode(new);
    txn.put(&FlowId(3), &IntentRow { attempt: 1, purpose, copies: vec![COPY], birth: BIRTH })?;
    let StripeRow { code, block_bytes, members } = stripe();
    let new = NewStripe { stripe: StripeId(3), code, block_bytes, members, data: 2, kept: vec![COPY] };
    let purpose = Purpose::Recode(Recoding { stripes: vec![new], replaces: vec![STRIPE, StripeId(300)] });
    txn.put(&FlowId(4), &IntentRow { attempt: 1, purpose, copies: vec![COPY], birth: BIRTH })
}

/// Rows of tables that came after the backup that is kept.
fn put_since(txn: &Change<'_>) -> Result<()> {
    let throttle = ThrottleRow { egress_bytes_per_s: 50_000_000, ingress_bytes_per_s: 0 };
    txn.put(&MetaKey, &throttle)?;
    let key = |task: &str| NodeTaskKey { node: NodeId(300), task: task.to_owned() };
    txn.put(&key("scrub"), &NodeTaskRow { switch: Switch::Pause })?;
    txn.put(&key("höhe"), &NodeTaskRow { switch: Switch::Stop })?;
    let heard = vec![HeardRow { node: NodeId(7), at_ms: 1_700_000_000_000 }];
    txn.put(&MetaKey, &ClockRow { now_ms: 1_700_000_000_300, heard })?;
    let ended = EndedPutRow {
        name: "höhe/x".to_owned(),
        version: 300,
        object_bytes: 70_000,
        digest: [8; 32],
        block_bytes: 64 << 20,
        block_count: 1,
        created_ms: 1_700_000_000_000,
        until_ms: 5,
    };
    txn.put(&PutId(0xabce), &ended)?;
    txn.put(&MetaKey, &HoldersRow { nodes: vec![NodeId(7), NodeId(300)] })?;
    txn.put(&MetaKey, &DisksRow { rates: Some(vec![None, Some(800.5)]) })?;
    // In catalogs of the format before.
    txn.put(&MetaKey, &HistoryRow { term: Term { number: 2, word: 78 }, change: 300 })?;
    let why = Doubt::FewHolders { answered: 1, wanted: 2 };
    txn.put(&MetaKey, &DoubtRow { since_ms: 5, why })?;
    let forgotten = ForgottenRow {
        node: NodeId(300),
        since_ms: 5,
        is_over: true,
        dropped: 300,
        candidates: 6,
        short: 299,
        lost: 3,
        lost_objects: 2,
        lost_names: vec!["höhe/x".to_owned(), "y".to_owned()],
    };
    txn.put(&StoreId(0x5704f), &forgotten)
}

fn terms() -> GatherTerms {
    GatherTerms {
        policy: "ear".to_owned(),
        code: "rs-2+1".to_owned(),
        rack_capacity: 1,
        target_racks: 300,
        spread: "two-racks".to_owned(),
    }
}

/// Blocks that wait to be encoded, and what is known of where they will lie.
fn put_gathering(txn: &Change<'_>) -> Result<()> {
    let rack = || "r1".to_owned();
    let row = GatheringRow {
        terms: terms(),
        replicas: 3,
        size_class: 26,
        since_ms: 5,
        sealed_ms: None,
        core: Some(rack()),
        targets: vec![rack(), "r2".to_owned()],
        globals: vec![rack()],
        blocks: vec![GatheredBlock { block: DATA, nodes: vec![NodeId(7), NodeId(300)] }],
        settled: vec![SettledRow { kept: vec![Some(300), None], parity: Some(rack()) }],
    };
    txn.put(&STRIPE, &row)?;
    txn.put(&StripeId(5), &GatheringRow { sealed_ms: Some(6), core: None, ..row })?;
    txn.put(&DATA, &GatheredRow { stripe: STRIPE })
}

/// What has come since version 5 and is part of a backup.
fn put_latest(txn: &Change<'_>) -> Result<()> {
    txn.put(&"höhe".to_owned(), &BucketRow { terms: terms(), archive_after_ms: 604_800_000 })?;
    let encoding = EncodingRow {
        name: "höhe/".to_owned(),
        is_prefix: true,
        before_unix_ms: 1_700_000_000_000,
        code: "rs-2+1".to_owned(),
        scheme: "star".to_owned(),
        slice_bytes: 32 << 10,
        parallel: 12,
        short: true,
        change: true,
    };
    txn.put(&11, &JobRow::Encode(encoding))?;
    txn.put(&DeadKey { stripe: STRIPE, block: PARITY }, &DeadRow { stored_bytes: 70_000 })?;
    txn.put(&BlockId(4), &LackRow { copies: 2 })?;
    let budgets =
        BudgetsRow { client_bytes_per_s: 0, healing_bytes_per_s: 300, archival_bytes_per_s: 70_000 };
    txn.put(&MetaKey, &budgets)?;
    txn.put(&NodeId(7), &ReturnsRow { count: 2, at_ms: 1_700_000_000_000 })?;
    let compaction = CompactionRow { scheme: "star".to_owned(), slice_bytes: 32 << 10, parallel: 2 };
    txn.put(&10, &JobRow::Compact(compaction))
}

/// Writes the kinds of rows that were added to version 8 after its first release.
fn put_orders(txn: &Change<'_>) -> Result<()> {
    let JobRow::RecoverNodes(how) = recovery(Assign::MPpr) else { unreachable!("it is one") };
    txn.put(&NodeId(7), &OrderRow { how, is_stopped: true })?;
    let repair = RepairRow {
        blocks: vec![DATA, PARITY],
        stripes: true,
        scheme: "star".to_owned(),
        slice_bytes: 32 << 10,
        verify: true,
        requestor: Some(NodeId(300)),
        helpers: vec![NodeId(7)],
        patient: true,
    };
    txn.put(&9, &JobRow::Repair(repair))
}

fn catalog(rows: impl Fn(&Change) -> Result<()>) -> Catalog {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    let catalog = Catalog::open(&disk, ClusterId(1)).unwrap();
    catalog.change(rows).unwrap();
    catalog
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.trim().bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// For a new version: `STRIPELINE_RENEW_GOLDEN=1 cargo test -p catalog stable` writes what is so now.
fn renew(name: &str, now: &str) {
    if std::env::var_os("STRIPELINE_RENEW_GOLDEN").is_some() {
        std::fs::write(format!("{}/golden/{name}", env!("CARGO_MANIFEST_DIR")), now).unwrap();
    }
}

/// All rows as lines of the golden file.
fn lines(catalog: &Catalog) -> String {
    let mut text = String::new();
    let read = |table: &'static str| {
        catalog.view(|txn| {
            txn.raw_scan(table, &[], &mut |key, value| {
                writeln!(text, "{table} {} {}", hex(key), hex(value)).unwrap();
                Ok(Scan::Next)
            })
        })
    };
    TABLES.into_iter().try_for_each(read).unwrap();
    text
}

#[test]
fn rows_are_stable() {
    let catalog = catalog(|txn| {
        put_lasting(txn)?;
        put_in_flight(txn)?;
        put_since(txn)?;
        put_gathering(txn)?;
        put_latest(txn)?;
        put_orders(txn)?;
        txn.put(
            &MetaKey,
            &DamageRow { findings: vec!["row blocks 00: its checksum fails".to_owned()], count: 300 },
        )
    });
    let now = lines(&catalog);
    renew("rows-v8.txt", &now);
    for (now, then) in now.lines().zip(ROWS.lines()) {
        assert_eq!(now, then, "a row's bytes have changed: that is a new version of the row");
    }
    assert_eq!(now, ROWS, "rows of the golden file are missing, or new ones are not in it");
    for table in TABLES {
        let shown = ROWS.lines().any(|line| line.starts_with(&format!("{table} ")));
        assert!(shown, "no row of {table} in the golden file");
    }
}

/// A catalog of format 7, as a program of then left it.
fn catalog_of_format_7() -> (CrashDisk, Arc<dyn Disk>) {
    let crash_disk = CrashDisk::new(&PowerSwitch::new());
    let disk: Arc<dyn Disk> = Arc::new(crash_disk.clone());
    let rows = Redb::open(&disk).unwrap();
    let write = |txn: &dyn RowsMut| {
        ROWS_7.lines().try_for_each(|line| {
            let (table, row) = line.split_once(' ').unwrap();
            let (key, value) = row.split_once(' ').unwrap();
            let table = TABLES.into_iter().find(|known| *known == table).unwrap();
            txn.put(table, &from_hex(key), &from_hex(value))
        })
    };
    rows.change(&mut |txn| write(txn)).unwrap();
    rows.close();
    (crash_disk, disk)
}

#[test]
fn a_catalog_of_format_7_is_rewritten_once_and_every_row_gets_a_checksum() {
    let (_, disk) = catalog_of_format_7();
    let catalog = Catalog::open(&disk, ClusterId(1)).unwrap();
    let taken_over = lines(&catalog);
    // The candidate of that time whose block is there stays, and so does every other row; the position is that of one more change.
    let changes = |line: &&str| {
        !["position ", "meta ", "about ", "damage ", "candidates ", "orders ", "jobs 0000000000000009 "]
            .iter()
            .any(|table| line.starts_with(table))
    };
    let (now, ours): (Vec<&str>, Vec<&str>) =
        (taken_over.lines().filter(changes).collect(), ROWS.lines().filter(changes).collect());
    assert_eq!(now, ours);
    assert_eq!(catalog.meta().unwrap().next_version, 301);
    let position = catalog.position().unwrap();
    catalog.close();
    let again = Catalog::open(&disk, ClusterId(1)).unwrap();
    assert_eq!(again.position().unwrap(), position, "once");
}

#[test]
fn a_damaged_catalog_of_format_7_is_not_rewritten() {
    let (crash_disk, disk) = catalog_of_format_7();
    let path = std::path::Path::new("catalog.redb");
    // A byte of an object's name, of which the file may have several copies of before.
    let name = "höhe/x".as_bytes();
    crash_disk
        .damage(path, |bytes| {
            let places: Vec<usize> =
                (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
            places.iter().for_each(|at| bytes[*at] ^= 1);
        })
        .unwrap();
    let refused = Catalog::open(&disk, ClusterId(1)).unwrap_err();
    assert!(refused.is_damage(), "{refused}");
}

#[test]
fn a_catalog_of_format_7_is_checked_page_by_page_and_stays_as_it_is() {
    let (crash_disk, disk) = catalog_of_format_7();
    let path = std::path::Path::new("catalog.redb");
    let scratch = || Arc::new(CrashDisk::new(&PowerSwitch::new())) as Arc<dyn Disk>;
    let page = |finding: &String| finding.contains("bytes at byte");
    let examined = examine(disk.as_ref(), path, &scratch()).unwrap();
    assert_eq!((examined.format, examined.has_checksums), (Some(7), false));
    assert_eq!(examined.rows, ROWS_7.lines().count() as u64);
    assert!(!examined.damage.findings.iter().any(page), "{examined:?}");
    crash_disk
        .damage(path, |bytes| {
            let name = "höhe/x".as_bytes();
            let places: Vec<usize> =
                (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
            places.iter().for_each(|at| bytes[*at] ^= 1);
        })
        .unwrap();
    let damaged = examine(disk.as_ref(), path, &scratch()).unwrap();
    assert!(damaged.damage.findings.iter().any(page), "{damaged:?}");
    assert!(damaged.rows < examined.rows, "without a checksum only its page speaks for a row");
}

/// What a program of before reads first: it knows the row, and refuses the format by its number.
#[test]
fn programs_of_before_find_the_format_where_they_look_for_it() {
    let catalog = catalog(|_| Ok(()));
    let stored = catalog.view(|txn| txn.rows().get("meta", b"catalog")).unwrap().unwrap();
    let mark = decode_of_before::<MarkRow>(b"catalog", &stored).unwrap();
    assert_eq!((mark.format, &stored[..]), (CATALOG_FORMAT, &MARK[..]));
}

#[test]
fn backups_are_stable_and_can_be_restored() {
    let mut backup = Vec::new();
    let catalog = catalog(|txn| {
        put_lasting(txn)?;
        put_latest(txn)
    });
    catalog
        .backup(100, |piece| {
            backup.extend(piece);
            true
        })
        .unwrap();
    renew("backup-v8.hex", &hex(&backup));
    assert_eq!(hex(&backup), BACKUP.trim(), "a backup's bytes have changed: that is a new version of it");

    for (backup, host) in [
        (BACKUP, "höst"),
        (BACKUP_7, "höst"),
        (BACKUP_6, "höst"),
        (BACKUP_5, "höst"),
        (BACKUP_4, ""),
        (BACKUP_3, ""),
    ] {
        restores(&from_hex(backup), host);
    }
}

fn restores(backup: &[u8], host: &str) {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    restore(&disk, backup).unwrap();
    let restored = Catalog::open(&disk, ClusterId(1)).unwrap();
    let (object, blocks) = restored.object("höhe/x").unwrap();
    assert_eq!((object.version, object.blocks, object.digest), (300, vec![DATA], Some([8; 32])));
    assert_eq!((blocks[0].facts.part.clone(), blocks[0].facts.sums), (Some(part()), sums()));
    assert_eq!(restored.node(NodeId(7)).unwrap().map(|node| node.host).as_deref(), Some(host));
    assert_eq!(restored.jobs().unwrap().iter().filter(|(number, _)| *number < 10).count(), 5);
    // Also where there was no index of them.
    assert_eq!(restored.deaths().unwrap().into_keys().collect::<Vec<_>>(), [STRIPE]);
    assert_eq!((restored.links().unwrap().0, restored.audit(0).unwrap()), (links(), vec![audit()]));
}
