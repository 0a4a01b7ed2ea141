//! The power is cut after every durable call; what is acknowledged must be there, and nothing may be half there.

use super::*;
use disk::SyncPoint;

const A: BlockId = BlockId(0xaa << 120 | 1);
const B: BlockId = BlockId(0xbb << 120 | 2);
const BYTES: usize = 2 * CHUNK_BYTES + 4321;

/// Seeds for what survives unsynced. Every mix of a few files and names occurs.
const SEEDS: u64 = 40;

/// Writes, writes beside it, deletes, writes again what is there; returns how many steps were acknowledged.
fn run(store: &Store) -> usize {
    let steps: [&dyn Fn() -> bool; 6] = [
        &|| put(store, A, 1, &content(1, BYTES)).is_ok(),
        &|| put(store, B, 1, &content(2, BYTES)).is_ok(),
        &|| put(store, A, 2, &content(3, BYTES - 5000)).is_ok(),
        &|| store.delete(A, 1).unwrap_or(false),
        &|| put(store, B, 1, &content(2, BYTES)).is_ok(),
        &|| store.delete(A, 2).unwrap_or(false),
    ];
    steps.iter().take_while(|step| step()).count()
}

/// The copies, each with its content, the step that writes it and the step that deletes it.
const COPIES: [(BlockId, u64, u64, usize, usize); 3] =
    [(A, 1, 1, 1, 4), (B, 1, 2, 2, usize::MAX), (A, 2, 3, 3, 6)];

/// Whether the copy is there, whole and right; an error says what is wrong with it.
fn stored(store: &Store, block: BlockId, generation: u64, seed: u64) -> std::result::Result<bool, String> {
    if !store.contains(block, generation).map_err(|e| e.to_string())? {
        return match store.reader(block, generation) {
            Err(StoreError::NotFound { .. }) => Ok(false),
            other => Err(format!("not contained, but {other:?}")),
        };
    }
    match store.verify(block, generation, |_| ()).map_err(|e| e.to_string())? {
        Verdict::Whole => {}
        Verdict::Damaged(damage) => return Err(damage.to_string()),
    }
    let bytes = get(store, block, generation).map_err(|e| e.to_string())?;
    let is_it = bytes == content(seed, BYTES - 5000 * usize::from(seed == 3));
    if is_it { Ok(true) } else { Err("unknown bytes".to_owned()) }
}

/// What is wrong with the store that survived.
fn check(bench: &Bench, acknowledged: usize) -> std::result::Result<(), String> {
    let disk = bench.disk.reopen();
    let store = open(&disk).map_err(|e| e.to_string())?;
    let mut expected = Usage::default();
    for (block, generation, seed, written, deleted) in COPIES {
        let is_there = stored(&store, block, generation, seed)?;
        // A step that was interrupted may have had its effect, or not.
        let (may, must) = (acknowledged + 1 >= written, (written..deleted - 1).contains(&acknowledged));
        if is_there && (!may || acknowledged >= deleted) || must && !is_there {
            return Err(format!("{block}.{generation} is there: {is_there}"));
        }
        if is_there {
            expected.blocks += 1;
            expected.stored_bytes += (BYTES - 5000 * usize::from(seed == 3)) as u64;
        }
    }
    // A cut between two names leaves one; it is told until an order names its copy.
    let usage = Usage { half_blocks: unjudged(&store).len() as u64, ..expected };
    if usage != store.usage() || usage.blocks != copies(&store).len() as u64 {
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
    assert_eq!(run(&store), 6);
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
    for point in
        [SyncPoint::BlockSidecar, SyncPoint::BlockData, SyncPoint::BlockFolder, SyncPoint::BlockDeleted]
    {
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
    let joined = open(disk).is_ok_and(|store| store.welcomed(ClusterId(1)).is_ok());
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
        let store = match open(&disk) {
            Err(StoreError::NotFormatted) if !formatted => {
                Store::format(&as_dyn(&disk), NODE).and_then(|()| open(&disk))
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
    assert_eq!(stored(&bench.store(), A, 1, 1), Ok(true));
    bench.power.restart();
    let store = open(&bench.disk.reopen()).unwrap();
    assert_eq!(stored(&store, A, 1, 1), Ok(true));
}
