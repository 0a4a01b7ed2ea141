//! Power cuts between the steps of a start: the store is welcome at its next one, for it can always show the word that was
//! accepted last.

use super::*;
use disk::SyncPoint;

const CLUSTER: ClusterId = ClusterId(5);

/// The half of a start that the coordinator carries out (`catalog::incarnation` has the rules; nobody else answers here).
#[derive(Default)]
struct Coordinator {
    accepted: Option<Incarnation>,
}

impl Coordinator {
    /// Accepts the start; an error says that the store would be taken for one that was set back.
    fn register(&mut self, before: &Identity, new: Incarnation) -> std::result::Result<(), String> {
        let is_known = |word| before.accepted == Some(word) || before.tried.contains(&word) || word == new;
        if let Some(word) = self.accepted.filter(|word| !is_known(*word)) {
            return Err(format!("{word} was accepted, and the store shows {before:?}"));
        }
        self.accepted = Some(new);
        Ok(())
    }
}

/// A start as far as the power lets it come.
fn start(disk: &CrashDisk, coordinator: &mut Coordinator) -> std::result::Result<(), String> {
    let Ok(store) = open(disk) else { return Ok(()) };
    let Ok(before) = store.try_start() else { return Ok(()) };
    coordinator.register(&before, store.incarnation())?;
    let _ = store.welcomed(CLUSTER);
    Ok(())
}

/// Starts again and again, the power cut during each after `cuts` calls; what the last one met.
fn starts(cuts: &[u64], configure: impl Fn(&PowerSwitch)) -> std::result::Result<(), String> {
    let Bench { power, disk } = Bench::new();
    let (mut disk, mut coordinator) = (disk, Coordinator::default());
    start(&disk, &mut coordinator)?;
    configure(&power);
    for &cut in cuts {
        power.cut_after(cut);
        start(&disk, &mut coordinator)?;
        power.restart();
        disk = disk.reopen();
    }
    start(&disk, &mut coordinator)?;
    let Ok(store) = open(&disk) else { return Err("it does not open".to_owned()) };
    let identity = store.identity();
    match (identity.cluster, identity.accepted.is_some()) {
        (Some(CLUSTER), true) => Ok(()),
        _ => Err(format!("{identity:?}")),
    }
}

/// Durable calls of a whole start.
fn calls() -> u64 {
    let bench = Bench::new();
    start(&bench.disk, &mut Coordinator::default()).unwrap();
    let before = bench.power.calls();
    start(&bench.disk, &mut Coordinator::default()).unwrap();
    bench.power.calls() - before
}

#[test]
fn a_power_cut_at_any_step_of_a_start_leaves_a_store_that_is_welcome_again() {
    let calls = calls();
    assert!(calls > 256 + 8, "{calls}");
    // A start syncs 256 folders, one after the other, and changes nothing meanwhile: a few cuts stand for all within.
    let cuts = || (0..=calls).filter(|cut| !(4..250).contains(cut) || cut % 64 == 0);
    for first in cuts() {
        for second in cuts() {
            starts(&[first, second], |_| {})
                .unwrap_or_else(|why| panic!("cut after {first}, {second}: {why}"));
        }
        for seed in 0..4 {
            let random = |power: &PowerSwitch| power.survive_at_random(seed);
            starts(&[first, 3, first], random).unwrap_or_else(|why| panic!("{first}, seed {seed}: {why}"));
        }
    }
}

#[test]
fn without_its_syncs_a_start_would_be_taken_for_a_store_that_was_set_back() {
    for point in [SyncPoint::Format, SyncPoint::FormatFolder] {
        let lost = (0..=calls()).any(|cut| {
            let ignore = |power: &PowerSwitch| power.ignore(point);
            starts(&[cut], ignore).is_err()
        });
        assert!(lost, "nothing is lost without {point:?}");
    }
}

#[test]
fn each_start_has_a_word_of_its_own_and_shows_those_before_it() {
    let bench = Bench::new();
    let first = bench.store();
    let word = first.incarnation();
    assert_eq!(first.try_start().unwrap().tried, []);
    assert_eq!(first.try_start().unwrap().tried, [word], "the same process, again");
    drop(first);
    let second = bench.store();
    assert_ne!(second.incarnation(), word);
    let before = second.try_start().unwrap();
    assert_eq!((before.accepted, before.tried), (None, vec![word]));
    second.welcomed(CLUSTER).unwrap();
    let calls = bench.power.calls();
    second.welcomed(CLUSTER).unwrap();
    second.try_start().unwrap();
    assert_eq!(bench.power.calls(), calls, "what is noted is not written again");
    let third = second.identity();
    assert_eq!((third.accepted, third.tried), (Some(second.incarnation()), vec![]));
}
