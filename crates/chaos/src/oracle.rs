//! What each name may stand for: the content that was acknowledged last, and others while the fate of a change is in doubt.
//!
//! A change that was not acknowledged may still take effect, and even after a later one was acknowledged: its request may lie
//! in the queue of a coordinator that stands still, though the client is long gone. It cannot do so in another life of the
//! coordinator. A put that began before the present version does not replace it (the product's own rule), but one may
//! appear where everything was deleted meanwhile.

use crate::violation::Kind;
use std::collections::BTreeMap;

/// A content, by its number in the plan; what it is made of is [`content`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Content {
    /// Its number.
    pub number: u64,
    /// Its length.
    pub bytes: usize,
}

/// The bytes of a content: without a pattern that a code could hide an error in.
pub fn content(seed: u64, of: Content) -> Vec<u8> {
    let mut bytes = vec![0; of.bytes];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(&of.number.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// A change whose answer never came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Doubt {
    change: Change,
    /// What the name stands for if it happened; nothing for a deletion.
    outcome: Option<Content>,
    /// The life of the coordinator that it was sent to.
    life: u64,
    /// Something that began later was acknowledged: a put of this kind shows only where nothing is.
    is_behind: bool,
}

/// A change of a name, from its begin to its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change(u64);

/// One name.
#[derive(Clone, Debug, Default)]
pub struct Name {
    changes: u64,
    acknowledged: Option<Content>,
    doubts: Vec<Doubt>,
    /// Every content that was ever sent, to tell an old version from garbage.
    sent: Vec<Content>,
    /// What it could stand for at each moment, for readers that overlap with changes.
    history: Vec<Vec<Option<Content>>>,
}

/// What a read came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// These bytes.
    Found(Vec<u8>),
    /// There is no such object.
    Absent,
}

impl Name {
    /// What it may stand for now.
    pub fn possible(&self) -> Vec<Option<Content>> {
        let deleted = self.doubts.iter().any(|doubt| doubt.outcome.is_none());
        let is_shown = |doubt: &&Doubt| !doubt.is_behind || deleted || self.acknowledged.is_none();
        let mut possible = vec![self.acknowledged];
        possible.extend(self.doubts.iter().filter(is_shown).map(|doubt| doubt.outcome));
        possible.dedup();
        possible
    }

    /// Whether something must be there.
    pub fn must_be_there(&self) -> bool {
        !self.possible().contains(&None)
    }

    /// A change begins: it may show from now on.
    pub fn begins(&mut self, outcome: Option<Content>, life: u64) -> Change {
        self.sent.extend(outcome);
        self.changes += 1;
        let change = Change(self.changes);
        self.doubts.push(Doubt { change, outcome, life, is_behind: false });
        self.note();
        change
    }

    /// It was acknowledged, in that life of the coordinator: others of earlier lives are settled.
    pub fn acknowledged(&mut self, change: Change, life: u64) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.change == change) else { return };
        self.acknowledged = self.doubts.remove(at).outcome;
        self.doubts.retain(|doubt| doubt.life == life);
        for doubt in &mut self.doubts {
            doubt.is_behind |= doubt.outcome.is_some();
        }
        self.note();
    }

    /// Whoever wanted it has given up, in that life of the coordinator.
    pub fn given_up(&mut self, change: Change, life: u64) {
        if let Some(doubt) = self.doubts.iter_mut().find(|doubt| doubt.change == change) {
            doubt.life = life;
        }
    }

    /// It stands for what it stood for when `before` was noted, and reads that overlap may see either.
    pub fn set_back(&mut self, before: Name) {
        let (changes, sent) = (self.changes, std::mem::take(&mut self.sent));
        let history = std::mem::take(&mut self.history);
        *self = Name { changes, sent, history, ..before };
        self.note();
    }

    fn note(&mut self) {
        let possible = self.possible();
        self.history.push(possible);
    }

    /// Where a read begins.
    pub fn moment(&self) -> usize {
        self.history.len().saturating_sub(1)
    }

    /// What a read from `moment` until now may have seen.
    pub fn possible_since(&self, moment: usize) -> Vec<Option<Content>> {
        let seen = self.history.get(moment..).unwrap_or_default().iter().flatten().copied();
        let mut seen: Vec<Option<Content>> = seen.chain(self.possible()).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    /// Judges a read of the whole object, or of the part that `range` cuts out of a content.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge(
        &self,
        seed: u64,
        moment: usize,
        read: &Read,
        range: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<(), (Kind, String)> {
        let possible = self.possible_since(moment);
        let is = |content_is: Content, bytes: &[u8]| {
            range(&content(seed, content_is)).is_some_and(|part| part == bytes)
        };
        match read {
            Read::Absent if possible.contains(&None) => Ok(()),
            Read::Absent => Err((Kind::Lost, format!("is not there; it stands for {possible:?}"))),
            Read::Found(bytes) if possible.iter().flatten().any(|c| is(*c, bytes)) => Ok(()),
            Read::Found(bytes) => match self.sent.iter().find(|c| is(**c, bytes)) {
                Some(old) if possible.iter().all(Option::is_none) => {
                    Err((Kind::Resurrected, format!("was deleted, and is {old:?}")))
                }
                Some(old) => Err((Kind::Wrong, format!("is {old:?}, an old version, and not {possible:?}"))),
                None => Err((
                    Kind::Wrong,
                    format!("has {} bytes that nobody stored; it stands for {possible:?}", bytes.len()),
                )),
            },
        }
    }
}

/// All names, as they are when a cluster is photographed and set back.
pub type Names = BTreeMap<usize, Name>;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: Content = Content { number: 1, bytes: 10 };
    const B: Content = Content { number: 2, bytes: 10 };

    fn whole(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }

    fn judge(name: &Name, moment: usize, read: &Read) -> Result<(), Kind> {
        name.judge(7, moment, read, whole).map_err(|(kind, _)| kind)
    }

    fn found(of: Content) -> Read {
        Read::Found(content(7, of))
    }

    fn acknowledge(name: &mut Name, outcome: Option<Content>, life: u64) {
        let change = name.begins(outcome, life);
        name.acknowledged(change, life);
    }

    #[test]
    fn what_was_acknowledged_must_be_there_and_nothing_else() {
        let mut name = Name::default();
        assert_eq!(judge(&name, 0, &Read::Absent), Ok(()));
        acknowledge(&mut name, Some(A), 1);
        let moment = name.moment();
        assert_eq!(judge(&name, moment, &found(A)), Ok(()));
        assert_eq!(judge(&name, moment, &Read::Absent), Err(Kind::Lost));
        assert_eq!(judge(&name, moment, &Read::Found(vec![1, 2])), Err(Kind::Wrong));
        acknowledge(&mut name, Some(B), 1);
        assert_eq!(judge(&name, name.moment(), &found(A)), Err(Kind::Wrong));
        // A read that began before the change may still see the old one.
        assert_eq!(judge(&name, moment, &found(A)), Ok(()));
        acknowledge(&mut name, None, 1);
        assert_eq!(judge(&name, name.moment(), &found(B)), Err(Kind::Resurrected));
        assert_eq!(judge(&name, name.moment(), &Read::Absent), Ok(()));
    }

    #[test]
    fn doubts_stay_open_for_a_life_of_the_coordinator() {
        let mut name = Name::default();
        name.begins(Some(A), 1);
        assert_eq!(name.possible(), [None, Some(A)]);
        acknowledge(&mut name, Some(B), 1);
        // A began before B, so it does not replace it.
        assert_eq!(name.possible(), [Some(B)]);
        acknowledge(&mut name, None, 1);
        assert_eq!(name.possible(), [None, Some(A)]);
        acknowledge(&mut name, None, 2);
        assert_eq!(name.possible(), [None]);
        // A deletion in doubt may overtake a put.
        name.begins(None, 2);
        acknowledge(&mut name, Some(A), 2);
        assert_eq!(name.possible(), [Some(A), None]);
    }
}
