//! Problems that an operator should know about. Each has a stable code, so that monitors need not parse sentences (`docs/health.md`).

use crate::health::{Health, StuckOrder, UnreadCopies};
use std::time::Duration;

/// Kind of a problem.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Code {
    /// Objects that cannot be read now.
    UnreadableObjects,
    /// Stripes with blocks that cannot be obtained now.
    BrokenStripes,
    /// Blocks that lack copies on living nodes.
    ShortBlocks,
    /// Copies on living nodes that cannot be read now.
    UnreadCopies,
    /// An order that cannot proceed now.
    StuckWish,
    /// Blocks that cannot get more copies, or better placed ones, in the present cluster.
    StuckHealing,
    /// Under the limit on healing, re-creating the missing copies takes longer than a day.
    SlowHealing,
    /// Nothing is deleted, and the catalog may not be complete.
    SafeMode,
    /// The catalog's file has not been checked yet.
    UncheckedCatalog,
}

impl Code {
    /// All codes.
    pub const ALL: [Code; 9] = [
        Code::UnreadableObjects,
        Code::BrokenStripes,
        Code::ShortBlocks,
        Code::UnreadCopies,
        Code::StuckWish,
        Code::StuckHealing,
        Code::SlowHealing,
        Code::SafeMode,
        Code::UncheckedCatalog,
    ];

    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Code::UnreadableObjects => "UNREADABLE_OBJECTS",
            Code::BrokenStripes => "BROKEN_STRIPES",
            Code::ShortBlocks => "SHORT_BLOCKS",
            Code::UnreadCopies => "UNREAD_COPIES",
            Code::StuckWish => "STUCK_WISH",
            Code::StuckHealing => "STUCK_HEALING",
            Code::SlowHealing => "SLOW_HEALING",
            Code::SafeMode => "SAFE_MODE",
            Code::UncheckedCatalog => "UNCHECKED_CATALOG",
        }
    }

    /// Returns how bad the problem is.
    pub fn verdict(self) -> Verdict {
        match self {
            Code::UnreadableObjects | Code::BrokenStripes => Verdict::Unreadable,
            // Nothing is missing, for instance in a cluster of one rack.
            Code::StuckHealing => Verdict::Well,
            _ => Verdict::Lacking,
        }
    }
}

/// Overall state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Everything has all of its copies, can be read, and no order is stuck.
    Well,
    /// Everything can be read, but something is not as it should be.
    Lacking,
    /// Something cannot be read now.
    Unreadable,
}

/// A problem that an operator should know about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attention {
    /// Kind of the problem.
    pub code: Code,
    /// Number of affected objects, stripes, blocks or copies.
    pub count: u64,
    /// Text for people.
    pub text: String,
}

impl Health {
    /// Returns the problems, worst first.
    pub fn attention(&self) -> Vec<Attention> {
        let names =
            self.unreadable_names.iter().map(|name| format!("{name} cannot be read from sound copies now"));
        let unreadable = names.chain(self.more_unreadable());
        let mut all: Vec<Attention> = unreadable.map(|text| of(Code::UnreadableObjects, 1, text)).collect();
        if let Some(more) = all.last_mut().filter(|_| self.more_unreadable().is_some()) {
            more.count = self.unreadable_objects - self.unreadable_names.len() as u64;
        }
        if self.broken_stripes > 0 {
            let text = format!("{} stripes have blocks that cannot be had now", self.broken_stripes);
            all.push(of(Code::BrokenStripes, self.broken_stripes, text));
        }
        if self.short_blocks > 0 {
            all.push(of(Code::ShortBlocks, self.short_blocks, self.short()));
        }
        all.extend(self.unread.iter().map(unread));
        all.extend(self.stuck.iter().map(stuck));
        for told in &self.hindrances {
            let text = match told.blocks {
                1 => format!("block {}: {}", told.block, told.why),
                blocks => format!("{blocks} blocks, {} for one: {}", told.block, told.why),
            };
            all.push(of(Code::StuckHealing, told.blocks, text));
        }
        if let Some(left) = self.limited_left.filter(|left| *left > A_DAY) {
            let days = left.as_secs_f64() / A_DAY.as_secs_f64();
            let text = format!(
                "the limit on healing makes it take {days:.1} days until these blocks have their copies; 'stripeline throttle --healing' raises it"
            );
            all.push(of(Code::SlowHealing, self.short_blocks, text));
        }
        if !self.safe_mode.is_empty() {
            let text = format!("nothing is deleted, and all may not be known: {}", self.safe_mode);
            all.push(of(Code::SafeMode, 1, text));
        }
        if self.is_unchecked {
            all.push(of(Code::UncheckedCatalog, 1, UNCHECKED.to_owned()));
        }
        all
    }

    /// Returns the overall state.
    pub fn verdict(&self) -> Verdict {
        self.attention().iter().map(|told| told.code.verdict()).max().unwrap_or(Verdict::Well)
    }

    fn more_unreadable(&self) -> Option<String> {
        let more = self.unreadable_objects.saturating_sub(self.unreadable_names.len() as u64);
        (more > 0).then(|| format!("{more} more objects cannot be read from sound copies now"))
    }

    fn short(&self) -> String {
        let Health { short_blocks, waiting_for_nodes, missing_copies, damaged_copies, .. } = self;
        let (blocks, have) = match short_blocks {
            1 => ("block", "has not all of its copies"),
            _ => ("blocks", "have not all of their copies"),
        };
        format!(
            "{short_blocks} {blocks} {have} on living nodes that can read them, {waiting_for_nodes} of them since nodes do not answer, or \
             cannot read, which are waited for; {missing_copies} copies are missing, {damaged_copies} damaged"
        )
    }
}

/// Limit for healing: operators expect lost redundancy to be restored within a day.
const A_DAY: Duration = Duration::from_secs(24 * 3_600);

const UNCHECKED: &str = "the catalog's file is being checked since the coordinator's start ('stripeline tasks': catalog-check): nothing is known \
                         to be whole before that has ended, and nothing is deleted";

fn of(code: Code, count: u64, text: String) -> Attention {
    Attention { code, count, text }
}

fn unread(told: &UnreadCopies) -> Attention {
    let UnreadCopies { node, copies, why, grace_left } = told;
    let then = match *grace_left {
        Duration::ZERO => "others are being made".to_owned(),
        left => format!(
            "others are made in {} s, and sooner where no further loss is survived",
            left.as_secs() + 1
        ),
    };
    let noun = if *copies == 1 { "copy" } else { "copies" };
    of(Code::UnreadCopies, *copies, format!("{node} cannot read {copies} {noun} now: {why}; {then}"))
}

fn stuck(order: &StuckOrder) -> Attention {
    let StuckOrder { node, blocks_left, why } = order;
    let left = if *blocks_left == 1 {
        "1 block is left".to_owned()
    } else {
        format!("{blocks_left} blocks are left")
    };
    of(Code::StuckWish, *blocks_left, format!("{node} is to hold nothing, and {left}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::NodeId;

    #[test]
    fn the_worst_decides_and_what_only_lies_badly_is_no_lack() {
        let well = Health::default();
        assert_eq!((well.attention(), well.verdict()), (vec![], Verdict::Well));
        let hindrance = crate::Hindrance { why: "w".to_owned(), blocks: 2, block: model::BlockId(7) };
        let badly = Health { hindrances: vec![hindrance], ..Health::default() };
        assert_eq!((badly.attention().len(), badly.verdict()), (1, Verdict::Well));
        let stuck = StuckOrder { node: NodeId(5), blocks_left: 3, why: "no node has room".to_owned() };
        let stuck = Health { stuck: vec![stuck], ..badly };
        assert_eq!(stuck.verdict(), Verdict::Lacking);
        assert_eq!(
            stuck.attention()[0].text,
            "node-5 is to hold nothing, and 3 blocks are left: no node has room"
        );
        let unreadable =
            Health { unreadable_objects: 3, unreadable_names: vec!["a".to_owned(), "b".to_owned()], ..stuck };
        assert_eq!(unreadable.verdict(), Verdict::Unreadable);
        let counts: Vec<u64> = unreadable.attention().iter().map(|told| told.count).collect();
        assert_eq!(counts, [1, 1, 1, 3, 2]);
        let slow = |hours: u64| Health {
            limited_left: Some(Duration::from_secs(hours * 3_600)),
            short_blocks: 5,
            ..Health::default()
        };
        let codes = |health: Health| health.attention().iter().map(|told| told.code).collect::<Vec<_>>();
        assert_eq!(codes(slow(24)), [Code::ShortBlocks]);
        assert_eq!(codes(slow(36)), [Code::ShortBlocks, Code::SlowHealing]);
        assert!(slow(36).attention()[1].text.contains("1.5 days"));
        let unread = UnreadCopies {
            node: NodeId(2),
            copies: 1,
            why: "w".to_owned(),
            grace_left: Duration::from_secs(3),
        };
        let unread = Health { unread: vec![unread], unread_copies: 1, ..Health::default() };
        assert_eq!((unread.verdict(), unread.attention()[0].code), (Verdict::Lacking, Code::UnreadCopies));
    }

    /// Checks that `docs/health.md` lists exactly these codes, each with its exit code.
    #[test]
    fn the_page_for_monitors_has_each_code_with_its_exit_code() {
        let page = include_str!("../../../docs/health.md");
        let is_code = |line: &&str| {
            line.strip_prefix("| `").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        let rows = page.lines().filter(is_code);
        let told: Vec<(&str, &str)> = rows
            .filter_map(|row| {
                let mut cells = row.split('|').map(str::trim).skip(1);
                Some((cells.next()?.trim_matches('`'), cells.next()?))
            })
            .collect();
        let code_of = |code: Code| match code.verdict() {
            Verdict::Well => "0",
            Verdict::Lacking => "3",
            Verdict::Unreadable => "4",
        };
        let now: Vec<(&str, &str)> = Code::ALL.iter().map(|code| (code.name(), code_of(*code))).collect();
        assert_eq!(told, now);
    }
}
