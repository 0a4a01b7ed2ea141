//! The power is cut after every durable call; what is acknowledged must be there, and nothing may be half there.

use super::*;
use disk::SyncPoint;

const A: BlockId = BlockId(0xaa << 120 | 1);
const B: BlockId = BlockId(0xbb << 120 | 2);
const BYTES: usize = 2 * CHUNK_BYTES + 4321;

/// Seeds for what survives unsynced. Every mix of a few files and names occurs.
const SEEDS: u64 = 40;

/// Writes, replaces, writes again and deletes; returns how many steps were acknowledged.
fn run(store: &Store) -> usize {
    let steps: [&dyn Fn() -> bool; 5] = [
        &|| put(store, A, 1, &content(1, BYTES)).is_ok(),
        &|| put(store, B, 1, &content(2, BYTES)).is_ok(),
        &|| put(store, A, 2, &content(3, BYTES - 5000)).is_ok(),
        &|| put(store, B, 2, &content(2, BYTES)).is_ok(),
        &|| store.delete(A, 2).unwrap_or(false),
    ];
    steps.iter().take_while(|step| step()).count()
}

/// What may be stored under A and B (0: nothing, else the seed of the content) after `acknowledged` steps, the next
/// one being interrupted.
fn allowed(acknowledged: usize) -> (&'static [u64], &'static [u64]) {
    match acknowledged {
        0 => (&[0, 1], &[0]),
        1 => (&[1], &[0, 2]),
        2 => (&[1, 0, 3], &[2]),
        3 => (&[3], &[2]),
        4 => (&[3, 0], &[2]),
        _ => (&[0], &[2]),
    }
}

/// Which content is stored under `block`; an error says what is wrong with it.
fn stored(store: &Store, block: BlockId) -> std::result::Result<u64, String> {
    if !store.contains(block).map_err(|e| e.to_string())? {
        return match store.reader(block) {
            Err(StoreError::NotFound { .. }) => Ok(0),
            other => Err(format!("not contained, but {other:?}")),
        };
    }
    match store.verify(block, |_| ()).map_err(|e| e.to_string())? {
        Verdict::Whole => {}
        Verdict::Damaged(damage) => return Err(damage.to_string()),
    }
    let bytes = get(store, block).map_err(|e| e.to_string())?;
    (1..4)
        .find(|&seed| {
            bytes == content(seed, bytes.len()) && bytes.len() == BYTES - 5000 * usize::from(seed == 3)
        })
        .ok_or("unknown bytes".to_owned())
}

/// What is wrong with the store that survived.
fn check(bench: &Bench, acknowledged: usize) -> std::result::Result<(), String> {
    let disk = bench.disk.reopen();
    let store = Store::open(as_dyn(&disk), NODE).map_err(|e| e.to_string())?;
    let (may_a, may_b) = allowed(acknowledged);
    let (a, b) = (stored(&store, A)?, stored(&store, B)?);
    if !may_a.contains(&a) || !may_b.contains(&b) {
        return Err(format!("A holds {a}, B holds {b}"));
    }
    let listed: Vec<model::StoredCopy> = store.list().collect::<Result<_>>().map_err(|e| e.to_string())?;
    let usage = Usage {
        blocks: listed.len() as u64,
        stored_bytes: listed.iter().map(|block| block.stored_bytes).sum(),
        // A crash between two names leaves one; it is told until a copy of the block is written or deleted here.
        half_blocks: store.usage().half_blocks,
    };
    let expected_blocks = u64::from(a != 0) + u64::from(b != 0);
    if usage != store.usage() || usage.blocks != expected_blocks {
        return Err(format!("{usage:?} listed, {:?} counted", store.usage()));
    }
    let left: usize =
        ["tmp", "blocks/aa", "blocks/bb"].map(|f| disk.list(Path::new(f)).unwrap().len()).iter().sum();
    if left as u64 != 2 * usage.blocks + usage.half_blocks || usage.half_blocks > 1 {
        return Err(format!("{left} files for {} blocks", usage.blocks));
    }
    Ok(())
}

/// Cuts after every durable call; the first loss, if there is one.
fn first_loss(configure: impl Fn(&PowerSwitch)) -> Option<String> {
    let bench = Bench::new();
    let store = bench.store();
    let before = bench.power.calls();
    assert_eq!(run(&store), 5);
    let calls = bench.power.calls() - before;
    assert!(calls > 40, "{calls}");
    (0..=calls).find_map(|cut| {
        let bench = Bench::new();
        let store = bench.store();
        configure(&bench.power);
        bench.power.cut_after(cut);
        let acknowledged = run(&store);
        drop(store);
        bench.power.restart();
        let lost = check(&bench, acknowledged).err()?;
        Some(format!("cut after {cut} calls and {acknowledged} steps: {lost}"))
    })
}

#[test]
fn blocks_are_whole_or_absent_and_present_once_acknowledged() {
    assert_eq!(first_loss(|_| {}), None);
}

#[test]
fn the_same_holds_whatever_else_survives() {
    for seed in 0..SEEDS {
        assert_eq!(first_loss(|power| power.survive_at_random(seed)), None, "seed {seed}");
    }
}

#[test]
fn no_sync_of_a_block_is_superfluous() {
    for point in [
        SyncPoint::BlockSidecar,
        SyncPoint::BlockData,
        SyncPoint::BlockFolder,
        SyncPoint::BlockReplaced,
        SyncPoint::BlockDeleted,
    ] {
        let missed = first_loss(|power| power.ignore(point)).or_else(|| {
            (0..SEEDS).find_map(|seed| {
                first_loss(|power| {
                    power.ignore(point);
                    power.survive_at_random(seed);
                })
            })
        });
        assert!(missed.is_some(), "nothing is lost without {point:?}");
    }
}

/// Formats and joins; returns whether each was acknowledged.
fn found(disk: &CrashDisk) -> (bool, bool) {
    let formatted = Store::format(&as_dyn(disk), NODE).is_ok();
    let joined = Store::open(as_dyn(disk), NODE).is_ok_and(|store| store.join(ClusterId(1)).is_ok());
    (formatted, joined)
}

fn first_format_loss(configure: impl Fn(&PowerSwitch)) -> Option<String> {
    let power = PowerSwitch::new();
    found(&CrashDisk::new(&power));
    (0..=power.calls()).find_map(|cut| {
        let power = PowerSwitch::new();
        configure(&power);
        let disk = CrashDisk::new(&power);
        power.cut_after(cut);
        let (formatted, joined) = found(&disk);
        power.restart();
        let disk = disk.reopen();
        let open = || Store::open(as_dyn(&disk), NODE);
        let store = match open() {
            Err(StoreError::NotFormatted) if !formatted => {
                Store::format(&as_dyn(&disk), NODE).and_then(|()| open())
            }
            other => other,
        };
        let store = match store {
            Ok(store) => store,
            Err(error) => return Some(format!("cut after {cut}: {error}")),
        };
        if joined && store.identity().cluster != Some(ClusterId(1)) {
            return Some(format!("cut after {cut}: the cluster is forgotten"));
        }
        put(&store, A, 1, b"x").err().map(|error| format!("cut after {cut}: {error}"))
    })
}

#[test]
fn a_format_is_durable_or_can_be_repeated() {
    assert_eq!(first_format_loss(|_| {}), None);
    for seed in 0..4 {
        assert_eq!(first_format_loss(|power| power.survive_at_random(seed)), None, "seed {seed}");
    }
    for point in [SyncPoint::FormatFolders, SyncPoint::Format, SyncPoint::FormatFolder] {
        assert!(first_format_loss(|power| power.ignore(point)).is_some(), "{point:?}");
    }
}

/// A process that dies without a power cut leaves names that are not durable; whoever opens the store next may report
/// the block and must not lose it.
#[test]
fn opening_makes_durable_what_an_earlier_process_left() {
    let bench = Bench::new();
    bench.power.ignore(SyncPoint::BlockFolder);
    put(&bench.store(), A, 1, &content(1, BYTES)).unwrap();
    bench.power.heed_all();
    assert_eq!(stored(&bench.store(), A), Ok(1));
    bench.power.restart();
    let store = Store::open(as_dyn(&bench.disk.reopen()), NODE).unwrap();
    assert_eq!(stored(&store, A), Ok(1));
}
