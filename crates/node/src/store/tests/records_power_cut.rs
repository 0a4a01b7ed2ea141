//! The power is cut after every durable call of keeping snapshots and records: what was acknowledged is held, and what is
//! held is the true chain.

use super::records::{CLUSTER, Chain, append, bench, hold_snapshot, read, snapshot_of};
use super::*;
use disk::SyncPoint;

/// Seeds for what survives unsynced. Every mix of a few files and names occurs.
const SEEDS: u64 = 40;

/// After each step, how far what is held has come: a snapshot, records, a newer snapshot, records.
const STEPS: [Step; 6] =
    [Step::Snapshot(2), Step::To(4), Step::To(5), Step::Snapshot(6), Step::To(8), Step::To(9)];

#[derive(Clone, Copy)]
enum Step {
    Snapshot(usize),
    To(usize),
}

impl Step {
    fn change(self) -> usize {
        match self {
            Step::Snapshot(change) | Step::To(change) => change,
        }
    }
}

/// Records within a page, over several, and at odd places.
fn chain() -> Chain {
    Chain::new(9, &[100, 9_000, 3_000])
}

/// Takes the steps; returns how many were acknowledged.
fn run(store: &Store, chain: &Chain) -> usize {
    let mut at = 0;
    let step = |step: &Step| {
        let is_held = match *step {
            Step::Snapshot(change) => hold_snapshot(store, chain.at(change), &snapshot_of(change)).is_ok(),
            Step::To(change) => {
                matches!(append(store, chain.at(at), chain.records(at, change)), Ok(Some(_)))
            }
        };
        at = step.change();
        is_held
    };
    STEPS.iter().map(step).take_while(|is_held| *is_held).count()
}

/// What is wrong with what survived.
fn check(disk: &CrashDisk, chain: &Chain, acknowledged: usize) -> std::result::Result<(), String> {
    let store = open(disk).map_err(|error| error.to_string())?;
    let must = STEPS[..acknowledged].last().map_or(0, |step| step.change());
    // A step that was interrupted may have had its effect, or not, or that of its first records.
    let may = STEPS[..(acknowledged + 1).min(STEPS.len())].last().map_or(0, |step| step.change());
    let last = prefix(&store, chain)?;
    if !(must..=may).contains(&last) {
        return Err(format!("{last} is held, {must} was acknowledged"));
    }
    let names: Vec<String> = match disk.list(Path::new("records")) {
        Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
        Err(_) => Vec::new(),
    };
    if names.len() > 2 || names.iter().filter(|name| name.ends_with(".snapshot")).count() > 1 {
        return Err(format!("{names:?} are left"));
    }
    // It goes on from there, and all of that is held.
    if last == 0 {
        hold_snapshot(&store, chain.at(2), &snapshot_of(2)).map_err(|error| error.to_string())?;
    }
    let last = last.max(2);
    match append(&store, chain.at(last), chain.records(last, 9)) {
        Ok(Some(_)) => {}
        other => return Err(format!("it does not go on: {other:?}")),
    }
    drop(store);
    match prefix(&open(disk).map_err(|error| error.to_string())?, chain)? {
        9 => Ok(()),
        last => Err(format!("{last} is held after it went on")),
    }
}

/// How far the true chain is held, from one of its snapshots on; 0 if nothing is. An error if it is another chain.
fn prefix(store: &Store, chain: &Chain) -> std::result::Result<usize, String> {
    let Some((held, snapshot, records)) = read(store).map_err(|error| error.to_string())? else {
        return Ok(0);
    };
    let find = |at| (1..=9).find(|change| chain.at(*change) == at).ok_or("no position of the chain");
    let (from, to) = (find(held.snapshot)?, find(held.last)?);
    let mut rest = records.as_slice();
    for record in chain.records(from, to) {
        let length = (record.len() as u64).to_le_bytes();
        rest = rest.strip_prefix(&length).ok_or("another length")?;
        rest = rest.strip_prefix(record.as_slice()).ok_or("another record")?;
    }
    match snapshot == snapshot_of(from) && rest.is_empty() {
        true => Ok(to),
        false => Err("another snapshot, or more records".to_owned()),
    }
}

/// Cuts after every durable call; the first loss, if there is one.
fn first_loss(configure: impl Fn(&PowerSwitch)) -> Option<String> {
    let chain = chain();
    let (Bench { power, .. }, store) = bench();
    let before = power.calls();
    assert_eq!(run(&store, &chain), STEPS.len());
    let calls = power.calls() - before;
    assert!(calls > 30, "{calls}");
    (0..=calls).find_map(|cut| {
        let (Bench { power, disk }, store) = bench();
        configure(&power);
        power.cut_after(cut);
        let acknowledged = run(&store, &chain);
        drop(store);
        power.restart();
        power.heed_all();
        let lost = check(&disk.reopen(), &chain, acknowledged).err()?;
        Some(format!("cut after {cut} calls and {acknowledged} steps: {lost}"))
    })
}

#[test]
fn what_was_acknowledged_is_held_and_nothing_but_the_true_chain() {
    assert_eq!(first_loss(|_| {}), None);
}

#[test]
fn the_same_holds_whatever_else_survives() {
    for seed in 0..SEEDS {
        assert_eq!(first_loss(|power| power.survive_at_random(seed)), None, "seed {seed}");
    }
}

#[test]
fn no_sync_of_what_is_held_is_superfluous() {
    for point in [SyncPoint::HeldSnapshot, SyncPoint::HeldRecords, SyncPoint::HeldFolder] {
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

/// A process that dies without a power cut leaves what is not durable; whoever opens the store next says that it is held.
#[test]
fn opening_makes_durable_what_an_earlier_process_left() {
    let chain = chain();
    let (Bench { power, disk }, store) = bench();
    hold_snapshot(&store, chain.at(1), &snapshot_of(1)).unwrap();
    for point in [SyncPoint::HeldRecords, SyncPoint::HeldFolder] {
        power.ignore(point);
    }
    append(&store, chain.at(1), chain.records(1, 5)).unwrap().unwrap();
    drop(store);
    power.heed_all();
    assert_eq!(prefix(&open(&disk).unwrap(), &chain), Ok(5));
    power.restart();
    let store = open(&disk.reopen()).unwrap();
    assert_eq!((prefix(&store, &chain), store.identity().cluster), (Ok(5), Some(CLUSTER)));
}
