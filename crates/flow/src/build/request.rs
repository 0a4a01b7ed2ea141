//! What a repair or degraded read asks for, and what each site has to contribute to it.

use std::collections::BTreeSet;

use codes::{Code, CodeError, Equation, SymbolId};

use super::columns::Column;
use crate::error::FlowError;
use crate::graph::{Flow, Geometry, Input, Lane, Member, Output, Site, Symbol};
use crate::prove::{Present, Proved, prove_with};

/// A surviving block that may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Helper {
    /// The block.
    pub member: Member,
    /// Where it is stored.
    pub site: Site,
    /// Number of stored bytes. 0 makes the block absent, at no cost, if that follows from zero data.
    pub stored_bytes: u64,
    /// What a symbol of it costs to read, beside those of others: codes that can choose read more of those that cost less,
    /// and none of one that costs [`codes::ONLY_IN_NEED`] if others suffice.
    pub cost: u32,
}

/// What becomes of the result at the requestor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sink {
    /// The wanted blocks are written; all symbols of each must be wanted, in order.
    Write,
    /// The wanted symbols are handed to the driver, in order.
    Read,
}

/// A repair (`sink` = Write) or a degraded read (`sink` = Read) of one or more symbols of a stripe.
#[derive(Clone, Debug)]
pub struct RepairRequest<'a> {
    /// The stripe's code.
    pub code: &'a Code,
    /// How its blocks are cut.
    pub geometry: Geometry,
    /// What is wanted, in the order of the rows that the requestor gets.
    pub wanted: Vec<Symbol>,
    /// Blocks that may be used, most preferred first: also the order of a chain. Not all need be used. Several may
    /// share a site, the requestor's too. If a block is listed twice, its first place counts.
    pub helpers: &'a [Helper],
    /// Blocks of a short stripe that are known to be all zero: free to use, stored nowhere.
    pub absent: &'a [Member],
    /// Lost blocks that are known to be all zero although present data may contribute to them: nothing was stored of them. They help as
    /// any other block does, and cost nothing.
    pub empty: &'a [Member],
    /// Who gets the result.
    pub requestor: Site,
    /// What becomes of it.
    pub sink: Sink,
}

/// What one site contributes: the symbols it reads, and their coefficients towards the wanted rows.
#[derive(Clone)]
pub(super) struct Share {
    pub site: Site,
    pub inputs: Vec<Input>,
    pub columns: Vec<Column>,
}

impl RepairRequest<'_> {
    /// All symbols of `members`, in order: what a repair of whole blocks wants.
    pub fn whole_blocks(code: &Code, members: &[Member]) -> Vec<Symbol> {
        let block = |&member: &Member| (0..code.alpha() as u16).map(move |index| Symbol { member, index });
        members.iter().flat_map(block).collect()
    }

    /// Returns the blocks that are all zero besides the absent ones: those that store nothing. If the wanted symbols would be zero by them
    /// alone, living ones are read like any other, because a repair must read something.
    fn empty_members(&self) -> Vec<Member> {
        let living =
            self.helpers.iter().filter(|helper| helper.stored_bytes == 0).map(|helper| helper.member);
        let all: BTreeSet<Member> = living.chain(self.empty.iter().copied()).collect();
        let all: Vec<Member> = all.into_iter().filter(|member| !self.absent.contains(member)).collect();
        let say_all = |empty: &[Member]| {
            Present::new(self.code, self.absent, empty).is_ok_and(|present| self.want_zero(&present))
        };
        match all.is_empty() || !say_all(&all) {
            true => all,
            false if say_all(self.empty) => Vec::new(),
            false => self.empty.to_vec(),
        }
    }

    /// Returns all blocks that are known to be zero.
    pub(super) fn zero_members(&self) -> Vec<Member> {
        self.absent.iter().copied().chain(self.empty_members()).collect()
    }

    /// Whether all wanted symbols are known to be zero.
    fn want_zero(&self, present: &Present<'_>) -> bool {
        let exists = |symbol: &Symbol| usize::from(symbol.member.0) < self.code.n();
        self.wanted.iter().filter(|symbol| exists(symbol)).all(|symbol| present.says_zero(*symbol))
    }

    /// Solves for the wanted rows. One share per site that is needed, in order of preference.
    pub(super) fn shares(&self) -> Result<Vec<Share>, FlowError> {
        self.shares_by(|wanted, known, available, costs| {
            Ok(self.code.recovery_at(wanted, known, available, costs)?.equation)
        })
    }

    /// The same by the equation that `solve` gives of the wanted symbols, the known blocks, the available ones, and what a symbol of
    /// each of these costs.
    pub(super) fn shares_by(
        &self,
        solve: impl Fn(&[SymbolId], &[usize], &[usize], &[u32]) -> Result<Equation, CodeError>,
    ) -> Result<Vec<Share>, FlowError> {
        let zero = self.zero_members();
        let present = Present::new(self.code, self.absent, &self.empty_members())?;
        self.check_wanted(&zero)?;
        let mut helpers: Vec<&Helper> = Vec::new();
        for helper in self.helpers {
            let known = zero.contains(&helper.member) || helpers.iter().any(|h| h.member == helper.member);
            if !known {
                helpers.push(helper);
            }
        }
        let blocks = |members: &mut dyn Iterator<Item = Member>| -> Vec<usize> {
            members.map(|member| usize::from(member.0)).collect()
        };
        let wanted: Vec<SymbolId> =
            self.wanted.iter().map(|s| SymbolId { block: s.member.0, index: s.index }).collect();
        // What is zero costs nothing: it takes part in the equation and then falls out of the flow.
        let known = blocks(&mut zero.iter().copied());
        let available = blocks(&mut helpers.iter().map(|helper| helper.member));
        let costs: Vec<u32> = helpers.iter().map(|helper| helper.cost).collect();
        let equation = solve(&wanted, &known, &available, &costs)?;

        let mut shares: Vec<Share> = Vec::new();
        for helper in helpers {
            let mut symbols = Vec::new();
            let mut columns: Vec<Column> = Vec::new();
            for (column, input) in equation.inputs.iter().enumerate() {
                // Other zero blocks may say that this symbol is zero too.
                let symbol = Symbol { member: helper.member, index: input.index };
                if input.block == helper.member.0 && !present.says_zero(symbol) {
                    symbols.push(input.index);
                    columns.push((0..wanted.len()).map(|row| equation.matrix.get(row, column)).collect());
                }
            }
            if symbols.is_empty() {
                continue;
            }
            let input = Input::Local { member: helper.member, symbols };
            match shares.iter_mut().find(|share| share.site == helper.site) {
                Some(share) => {
                    share.inputs.push(input);
                    share.columns.append(&mut columns);
                }
                None => shares.push(Share { site: helper.site, inputs: vec![input], columns }),
            }
        }
        match self.wanted.first() {
            Some(symbol) if shares.is_empty() => Err(FlowError::WantedIsZero { member: symbol.member }),
            _ => Ok(shares),
        }
    }

    /// The helpers that the equation takes, in order of preference.
    ///
    /// # Errors
    /// As [`build`](super::build).
    pub fn needed(&self) -> Result<Vec<Helper>, FlowError> {
        let shares = self.shares()?;
        let takes = |member: Member| {
            let mut inputs = shares.iter().flat_map(|share| &share.inputs);
            inputs.any(|input| matches!(input, Input::Local { member: taken, .. } if *taken == member))
        };
        let mut needed: Vec<Helper> = Vec::new();
        for helper in self.helpers {
            if takes(helper.member) && !needed.iter().any(|known| known.member == helper.member) {
                needed.push(*helper);
            }
        }
        Ok(needed)
    }

    /// The shares in order of preference, the requestor's (perhaps without inputs) last: the row along which
    /// partial sums travel.
    pub(super) fn row(&self) -> Result<Vec<Share>, FlowError> {
        let (local, mut row): (Vec<Share>, Vec<Share>) =
            self.shares()?.into_iter().partition(|share| share.site == self.requestor);
        let nothing = Share { site: self.requestor, inputs: Vec::new(), columns: Vec::new() };
        row.push(local.into_iter().next().unwrap_or(nothing));
        Ok(row)
    }

    fn check_wanted(&self, zero: &[Member]) -> Result<(), FlowError> {
        let mut seen = BTreeSet::new();
        for &symbol in &self.wanted {
            if !seen.insert(symbol) {
                return Err(FlowError::WantedTwice { symbol });
            }
            if zero.contains(&symbol.member) {
                return Err(FlowError::WantedIsZero { member: symbol.member });
            }
        }
        if self.wanted.is_empty() { Err(FlowError::NothingWanted) } else { Ok(()) }
    }

    /// The requestor's outputs.
    pub(super) fn outputs(&self) -> Result<Vec<Output>, FlowError> {
        match self.sink {
            Sink::Read => Ok(vec![Output::Read { symbols: self.wanted.clone() }]),
            Sink::Write => write_outputs(&self.wanted, self.code.alpha()),
        }
    }

    /// The finished flow of one lane, if it computes what is wanted.
    pub(super) fn prove(&self, lane: Lane) -> Result<Proved, FlowError> {
        let flow = Flow::of_one(self.code.field(), self.geometry, lane);
        prove_with(flow, self.code, self.absent, &self.empty_members())
    }

    /// The finished flow of several lanes, which carry slices in proportion to `shares`.
    pub(super) fn prove_lanes(&self, lanes: Vec<Lane>, shares: Vec<u32>) -> Result<Proved, FlowError> {
        let flow = Flow { field: self.code.field(), geometry: self.geometry, lanes, shares };
        prove_with(flow, self.code, self.absent, &self.empty_members())
    }
}

/// One `Write` per block of `wanted`, which must be whole blocks.
pub(super) fn write_outputs(wanted: &[Symbol], alpha: usize) -> Result<Vec<Output>, FlowError> {
    let block = |symbols: &[Symbol]| {
        let member = symbols[0].member;
        let whole = symbols.len() == alpha
            && symbols.iter().enumerate().all(|(i, s)| s.member == member && usize::from(s.index) == i);
        if whole { Ok(Output::Write { member }) } else { Err(FlowError::PartialWrite { member }) }
    };
    wanted.chunks(alpha.max(1)).map(block).collect()
}
