//! Who a store is that wants to register: the one that the catalog knows, a clone of it, one that was set back, or another
//! (HEALING.md, "Incarnations").
//!
//! ```text
//!   node                                 coordinator
//!   draws a word, notes it as tried
//!   registers (id, accepted, tried, new) ──▶ asks the process of the word c that it accepted last, then judges
//!   notes the word as accepted       ◀────── welcome: c is the new word
//! ```

use crate::rows::NodeRow;
use model::{Incarnation, StoreId};

/// In place of the start that was accepted last, in a catalog that was restored from a backup: there were others since.
pub(crate) const NO_START: Incarnation = Incarnation(0);

/// What the catalog knows of the node's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its store.
    pub store: StoreId,
    /// The word c: the start that was accepted last.
    pub word: Incarnation,
    /// Copies that the catalog places on it; of interest only if another store comes.
    pub copies: u64,
    /// Whether a process answers under the word c, at the address that the catalog knows.
    pub answers: bool,
}

/// What a store says of itself when it registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// Which store it is.
    pub store: StoreId,
    /// The start of it that was accepted last, as far as it knows.
    pub accepted: Option<Incarnation>,
    /// Starts since then that asked to be accepted, the present one left out.
    pub tried: Vec<Incarnation>,
    /// The present one.
    pub new: Incarnation,
}

/// What to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is who it should be.
    Welcome,
    /// Its folder was set back or swapped: it does not know the start that was accepted last. It is welcome, and shown.
    SetBack,
    /// The process that was accepted last still answers: this one is a clone, or has the number of another node.
    Clone,
    /// Another store than the one that holds the number's copies.
    OtherStore,
    /// A store that was given up for good.
    Forgotten,
}

/// Judges a store that wants to register under a number. `known` is none for a number that never registered;
/// `is_forgotten`: the store was given up.
pub fn judge(known: Option<&Known>, start: &Start, is_forgotten: bool) -> Verdict {
    if is_forgotten {
        return Verdict::Forgotten;
    }
    let Some(known) = known else { return Verdict::Welcome };
    let is_same_store = known.store == start.store;
    match known.word {
        // The same process registers again.
        word if is_same_store && word == start.new => Verdict::Welcome,
        // A catalog that was restored from a backup knows no start: none of its nodes was set back for that.
        word if is_same_store && word == NO_START => Verdict::Welcome,
        _ if known.answers => Verdict::Clone,
        _ if !is_same_store && known.copies > 0 => Verdict::OtherStore,
        // A number that holds nothing is free.
        _ if !is_same_store => Verdict::Welcome,
        word if start.accepted == Some(word) || start.tried.contains(&word) => Verdict::Welcome,
        _ => Verdict::SetBack,
    }
}

impl Start {
    /// Whether it is the process that was accepted last: then it need not be asked whether it lives.
    pub fn is_the_accepted_one(&self, row: &NodeRow) -> bool {
        (row.store, row.incarnation) == (self.store, self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: StoreId = StoreId(1);
    const OTHER: StoreId = StoreId(2);
    const C: Incarnation = Incarnation(100);
    const NEW: Incarnation = Incarnation(101);
    const OLDER: Incarnation = Incarnation(99);

    fn known() -> Known {
        Known { store: OURS, word: C, copies: 5, answers: false }
    }

    fn start() -> Start {
        Start { store: OURS, accepted: Some(C), tried: Vec::new(), new: NEW }
    }

    /// The rows of the page's table, and what lies between them.
    #[test]
    fn every_case_has_its_answer() {
        let living = Known { answers: true, ..known() };
        let empty = Known { copies: 0, ..known() };
        let living_empty = Known { answers: true, ..empty };
        let accepted = start();
        let tried = Start { accepted: Some(OLDER), tried: vec![OLDER, C], ..start() };
        let only_tried = Start { accepted: None, tried: vec![C], ..start() };
        let same = Start { new: C, accepted: Some(OLDER), ..start() };
        let restored = Known { word: NO_START, ..known() };
        let set_back = Start { accepted: Some(OLDER), tried: vec![Incarnation(98)], ..start() };
        let never = Start { accepted: None, ..start() };
        let other = Start { store: OTHER, ..start() };
        let other_same_word = Start { store: OTHER, new: C, ..start() };
        use Verdict::{Clone, OtherStore, SetBack, Welcome};
        for (case, known, start, verdict) in [
            ("a number that never registered", None, &accepted, Welcome),
            ("a number that never registered, by a store with a past", None, &set_back, Welcome),
            ("it still answers under c", Some(living), &accepted, Clone),
            ("it still answers, and the clone was set back too", Some(living), &set_back, Clone),
            ("it still answers, and the second is another store", Some(living), &other, Clone),
            ("it still answers, and holds nothing", Some(living_empty), &other, Clone),
            ("silent; c is accepted", Some(known()), &accepted, Welcome),
            ("silent; c was tried before", Some(known()), &tried, Welcome),
            ("silent; c was tried at the first start of all", Some(known()), &only_tried, Welcome),
            ("the same process registers again", Some(known()), &same, Welcome),
            ("the same process registers again, and answers", Some(living), &same, Welcome),
            ("of a catalog that was restored", Some(restored), &set_back, Welcome),
            ("of a catalog that was restored, another id", Some(restored), &other, OtherStore),
            ("silent; another c", Some(known()), &set_back, SetBack),
            ("silent; it knows no c at all", Some(known()), &never, SetBack),
            ("silent; another c, no copies", Some(empty), &set_back, SetBack),
            ("another id for a number with copies", Some(known()), &other, OtherStore),
            ("another id for a number with copies, under c", Some(known()), &other_same_word, OtherStore),
            ("another id for a number without copies", Some(empty), &other, Welcome),
        ] {
            assert_eq!(judge(known.as_ref(), start, false), verdict, "{case}");
            assert_eq!(judge(known.as_ref(), start, true), Verdict::Forgotten, "{case}, forgotten");
        }
    }
}
