//! What a store has heard of the catalog.

use super::*;
use model::Term;

fn stamp(number: u64, word: u64, change: u64) -> Stamp {
    Stamp { term: Term { number, word }, change }
}

#[test]
fn a_new_term_is_kept_at_once_and_its_changes_when_they_are_noted() {
    let Bench { power, mut disk } = Bench::new();
    let store = open(&disk).unwrap();
    assert_eq!(store.heard(), Stamp::default());
    store.hear(stamp(2, 9, 5)).unwrap();
    store.hear(stamp(2, 9, 8)).unwrap();
    store.hear(stamp(2, 9, 7)).unwrap();
    assert_eq!(store.heard(), stamp(2, 9, 8), "answers may overtake each other");
    for refused in [stamp(1, 9, 99), stamp(2, 10, 99)] {
        assert!(matches!(store.hear(refused), Err(StoreError::OlderTerm { .. })), "{refused}");
    }
    drop(store);
    for (noted, left) in [(false, 5), (true, 8)] {
        let store = open(&disk).unwrap();
        store.hear(stamp(2, 9, 8)).unwrap();
        if noted {
            store.note_heard().unwrap();
        }
        drop(store);
        power.cut();
        power.restart();
        disk = disk.reopen();
        assert_eq!(open(&disk).unwrap().heard(), stamp(2, 9, left), "after a power cut");
    }
}
