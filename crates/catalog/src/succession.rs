//! Whether a catalog may serve: it is compared with what its nodes have heard and keep (HEALING.md, "Terms, records, holders").
//! One pure function, asked again with each answer, and with each catalog that was brought.
//!
//! | the catalog | answer |
//! |---|---|
//! | somebody else leads the nodes | not while he does |
//! | a node keeps records of later changes | these are brought |
//! | two that keep records have nothing later, and nobody has heard of anything later | it serves |
//! | nobody keeps what somebody has heard of | it serves, and lets nothing go |
//! | too few answer | it waits, serves after a while, and lets nothing go until they do |

use model::{NodeId, Position, Stamp};
use std::collections::BTreeMap;

/// So many of those that keep the records must agree. Whatever destroys waited for so many.
pub const HOLDERS_NEEDED: usize = 2;

/// What a node says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The last change that it has heard of.
    pub heard: Stamp,
    /// Up to where it keeps records, if it does.
    pub held: Option<Position>,
    /// Whom it obeys.
    pub leader: String,
    /// How long ago that answered, if it did since the node's start.
    pub led_ms_ago: Option<u64>,
}

/// What is known when it is decided.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// How far this catalog has come; the default for an empty one.
    pub own: Position,
    /// The nodes that keep its records, as it knows.
    pub holders: usize,
    /// The nodes that have answered since this process began.
    pub answers: BTreeMap<NodeId, Answer>,
    /// Nodes that are not led for so long are led by nobody.
    pub silence_ms: u64,
}

/// What follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing is missing.
    Serve,
    /// This node keeps later records.
    Bring(NodeId),
    /// It may be that nothing is missing: more must answer.
    Unsure {
        /// Of those that keep the records so many have answered.
        answered: usize,
        /// So many must.
        wanted: usize,
    },
    /// This node has heard of a change that nobody keeps.
    Hole(NodeId, Stamp),
    /// This node obeys another life of a coordinator, which goes on.
    Led(NodeId, Answer),
}

/// See the module. `remembers`: whether a change is known to this catalog.
pub fn judge(sight: &Sight, remembers: impl Fn(Stamp) -> bool) -> Verdict {
    let is_strange = |heard: Stamp| heard.term.number > 0 && !remembers(heard);
    let is_led = |answer: &Answer| answer.led_ms_ago.is_some_and(|ms| ms < sight.silence_ms);
    let led = |(_, answer): &(&NodeId, &Answer)| is_strange(answer.heard) && is_led(answer);
    if let Some((&node, answer)) = sight.answers.iter().find(led) {
        return Verdict::Led(node, answer.clone());
    }
    let held = |answer: &Answer| answer.held.map(|held| held.stamp);
    let later = |(_, answer): &(&NodeId, &Answer)| {
        held(answer).is_some_and(|held| held > sight.own.stamp && !remembers(held))
    };
    if let Some((&node, _)) =
        sight.answers.iter().filter(later).max_by_key(|(_, answer)| held(answer).map(order))
    {
        return Verdict::Bring(node);
    }
    let agrees = |answer: &&Answer| held(answer).is_some_and(&remembers);
    let (answered, wanted) =
        (sight.answers.values().filter(agrees).count(), HOLDERS_NEEDED.min(sight.holders));
    if answered < wanted {
        return Verdict::Unsure { answered, wanted };
    }
    match sight.answers.iter().find(|(_, answer)| is_strange(answer.heard)) {
        Some((&node, answer)) => Verdict::Hole(node, answer.heard),
        None => Verdict::Serve,
    }
}

/// Returns the node whose records may replace a damaged catalog, and how far they go. They must go up to the catalog's last change. If every
/// life since the end of the records told of changes only once [`HOLDERS_NEEDED`] holders had them, the records of the most advanced holder
/// suffice, provided that enough holders answer: the changes after them were told to nobody.
///
/// `remembers`: whether a change belongs to this catalog. `waited_since`: see `Catalog::waited_since`.
pub fn stands_in(
    own: &Position,
    holders: &[NodeId],
    answers: &BTreeMap<NodeId, Answer>,
    remembers: impl Fn(Stamp) -> bool,
    waited_since: impl Fn(u64) -> bool,
) -> Option<(NodeId, Position)> {
    let held = |node: &NodeId| Some((*node, answers.get(node)?.held?));
    if let Some(all) = answers.keys().filter_map(held).find(|(_, held)| held == own) {
        return Some(all);
    }
    let kept: Vec<(NodeId, Position)> =
        holders.iter().filter_map(held).filter(|(_, held)| remembers(held.stamp)).collect();
    let are_enough = holders.len() >= HOLDERS_NEEDED && kept.len() + HOLDERS_NEEDED > holders.len();
    let last = kept.into_iter().filter(|_| are_enough).max_by_key(|(_, held)| order(held.stamp))?;
    let nobody_was_told = answers.values().all(|answer| order(answer.heard) <= order(last.1.stamp));
    (nobody_was_told && waited_since(last.1.stamp.term.number)).then_some(last)
}

/// Of two lives of one number neither is the later one; the word decides, so that all decide alike.
fn order(stamp: Stamp) -> (u64, u64, u64) {
    (stamp.term.number, stamp.change, stamp.term.word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Term;

    fn at(term: u64, change: u64) -> Position {
        Position {
            stamp: Stamp { term: Term { number: term, word: term }, change },
            hash: [change as u8; 32],
        }
    }

    fn heard(position: Position) -> Answer {
        Answer { heard: position.stamp, led_ms_ago: Some(10_000), ..Answer::default() }
    }

    fn holds(position: Position) -> Answer {
        Answer { held: Some(position), ..heard(position) }
    }

    /// A catalog that has come to (3, 50) knows the changes of its terms up to (1, 10), (2, 20) and there.
    fn decide(answers: &[Answer]) -> Verdict {
        let known = |stamp: Stamp| {
            let last = [0, 10, 20, 50].get(stamp.term.number as usize);
            stamp.term.word == stamp.term.number && last.is_some_and(|last| stamp.change <= *last)
        };
        let answers = (1..).map(NodeId).zip(answers.iter().cloned()).collect();
        judge(&Sight { own: at(3, 50), holders: 3, answers, silence_ms: 5_000 }, known)
    }

    #[test]
    fn two_that_keep_nothing_later_suffice() {
        assert_eq!(decide(&[holds(at(3, 50)), holds(at(3, 49))]), Verdict::Serve);
        assert_eq!(decide(&[holds(at(3, 50)), heard(at(3, 50))]), Verdict::Unsure { answered: 1, wanted: 2 });
        assert_eq!(decide(&[]), Verdict::Unsure { answered: 0, wanted: 2 });
        let nobody = Sight { own: at(1, 1), ..Sight::default() };
        assert_eq!(judge(&nobody, |_| true), Verdict::Serve, "it never had anybody keep its records");
    }

    #[test]
    fn what_somebody_keeps_is_brought_the_latest_first() {
        let later = [holds(at(3, 50)), holds(at(3, 51)), holds(at(4, 2)), holds(at(3, 60))];
        assert_eq!(decide(&later), Verdict::Bring(NodeId(3)));
        assert_eq!(decide(&later[1..2]), Verdict::Bring(NodeId(1)), "one suffices");
    }

    #[test]
    fn what_nobody_keeps_and_somebody_heard_of_is_a_hole() {
        let all = [holds(at(3, 50)), holds(at(3, 50)), heard(at(3, 51))];
        assert_eq!(decide(&all), Verdict::Hole(NodeId(3), at(3, 51).stamp));
        assert_eq!(decide(&all[1..]), Verdict::Unsure { answered: 1, wanted: 2 }, "others may keep it");
    }

    #[test]
    fn a_damaged_catalog_is_replaced_by_what_has_all_that_anybody_was_told_of() {
        let stands = |answers: &[Answer], waits| {
            let answers: BTreeMap<NodeId, Answer> = (1..).map(NodeId).zip(answers.iter().cloned()).collect();
            let holders = [1, 2, 3].map(NodeId);
            let remembers = |stamp: Stamp| stamp.term.number <= 3;
            stands_in(&at(3, 50), &holders, &answers, remembers, |_| waits).map(|(node, held)| (node.0, held))
        };
        assert_eq!(stands(&[holds(at(3, 50))], false), Some((1, at(3, 50))), "one keeps all");
        let behind = [holds(at(3, 48)), holds(at(3, 49))];
        assert_eq!(
            stands(&behind, true),
            Some((2, at(3, 49))),
            "each acknowledged change is with one of two"
        );
        assert_eq!(stands(&behind, false), None, "the last change may have been acknowledged");
        assert_eq!(stands(&behind[..1], true), None, "the others may keep more");
        let told = [holds(at(3, 48)), holds(at(3, 49)), heard(at(3, 50))];
        assert_eq!(stands(&told, true), None, "a node was told of the last one");
        assert_eq!(stands(&[holds(at(4, 1)), holds(at(4, 2))], true), None, "they are of another history");
    }

    #[test]
    fn who_is_led_by_another_life_is_left_to_it() {
        let led = Answer { led_ms_ago: Some(4_999), ..holds(at(4, 1)) };
        assert_eq!(decide(std::slice::from_ref(&led)), Verdict::Led(NodeId(1), led));
        let own = Answer { led_ms_ago: Some(100), ..holds(at(3, 49)) };
        assert_eq!(decide(&[own.clone(), own]), Verdict::Serve, "the life before this one, which has ended");
    }
}
