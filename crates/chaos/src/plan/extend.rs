//! Additions to a plan: codes and layouts, operators, unreadable copies, trials of what `health` says, and the end. Each is drawn from its own
//! stream, so that the rest of a seed's plan stays the same.

use super::codes::{self, Known};
use super::draw::{self, MAX_BLOCKS, OBJECTS};
use super::{Budgets, Fault, Plan, Step, Taking, Unread, Unreadable, Work};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use std::ops::Range;

/// Stream of codes, and of how stripes are made.
const CODES_STREAM: u64 = 0x636f_6465;

/// Fraction of plans with codes of all families.
const CODES_OF: (u32, u32) = (2, 3);

/// Number of codes in such a plan.
const CODES: usize = 3;

/// Largest number of nodes to which a cluster grows for wide codes. Each node is a process.
const MAX_NODES: u32 = 11;

/// Stream of the client that works with objects of these codes undisturbed by others.
const OWN_STREAM: u64 = 0x6f_776e;

/// Number of the first content of its objects.
const OWN_CONTENTS: u64 = 1_000_000;

/// Number of later steps with them.
const OWN_STEPS: Range<usize> = 4..10;

/// Stream of concurrent operators.
const OPERATOR_STREAM: u64 = 0x6f70_6572;

/// One plan in two has operators.
const OPERATORS_ONE_IN: u32 = 2;

/// Longest time between the starts of two operators' orders.
const APART_MS: u64 = 150;

/// Stream of unreadable copies.
const UNREAD_STREAM: u64 = 0x756e_7265_6164;

/// One plan in two has unreadable copies.
const UNREAD_ONE_IN: u32 = 2;

/// Milliseconds for which copies stay unreadable. Some last longer than a node's death, its grace and the recovery together; some do not.
const UNREAD_MS: Range<u64> = 300..6_000;

/// Stream of trials of what `health` says during the schedule.
const TRIAL_STREAM: u64 = 0x74_7269_616c;

/// One plan in five has a trial, because it takes seconds in which nothing else happens.
const TRIAL_ONE_IN: u32 = 5;

/// One plan in three has a trial at the end.
const END_TRIAL_ONE_IN: u32 = 3;

/// Stream of budgets.
const BUDGET_STREAM: u64 = 0x62_7564;

/// One plan in three has budgets.
const BUDGETS_ONE_IN: u32 = 3;

/// Budgets in kbit/s. At the lowest one a block takes eight seconds, at the highest nothing is slowed.
const BUDGETS_KBIT: [u64; 6] = [64, 128, 400, 1_000, 2_000, 20_000];

/// Stream of a plan's end.
const END_STREAM: u64 = 0x65_6e64;

pub(super) fn plan(seed: u64) -> Plan {
    let mut plan = draw::plan(seed);
    let stream = |stream: u64| StdRng::seed_from_u64(seed ^ stream);
    let drawn = draw_codes(&mut stream(CODES_STREAM), &mut plan);
    let own = draw_own(&mut stream(OWN_STREAM), &plan, &drawn);
    plan.clients.extend((!own.is_empty()).then_some(own));
    plan.operators = draw_operators(&mut stream(OPERATOR_STREAM), &plan);
    let unread = draw_unread(&mut stream(UNREAD_STREAM), &plan);
    let trial = draw_trial(&mut stream(TRIAL_STREAM), &plan);
    plan.faults.extend(unread.into_iter().chain(trial));
    plan.faults.sort_by_key(|step| step.at_ms);
    plan.budgets = draw_budgets(&mut stream(BUDGET_STREAM));
    let mut random = stream(END_STREAM);
    plan.goes_on = random.random();
    plan.trial = random.random_ratio(1, END_TRIAL_ONE_IN).then(|| (taking(&mut random), random.random()));
    plan
}

/// Returns the codes of this plan, none for most of the rest.
fn draw_codes(random: &mut StdRng, plan: &mut Plan) -> Vec<&'static Known> {
    if !random.random_ratio(CODES_OF.0, CODES_OF.1) {
        return Vec::new();
    }
    let drawn = (0..CODES).filter_map(|_| codes::draw(random));
    let drawn: Vec<&Known> = drawn.filter(|code| code.stored < MAX_NODES).collect();
    // One node more, so that a lost member has somewhere to go.
    let needed = drawn.iter().map(|code| code.stored + 1).max().unwrap_or(0);
    grow(plan, needed);
    for step in plan.clients.iter_mut().flatten() {
        change(random, &drawn, plan.shape.racks, &mut step.does);
    }
    drawn
}

/// Draws a client with one object per code. It codes each object by archival or on write, then reads, repairs and recodes it.
fn draw_own(random: &mut StdRng, plan: &Plan, drawn: &[&Known]) -> Vec<Step<Work>> {
    let mut steps = Vec::new();
    let objects = || (OBJECTS..).zip(drawn);
    for (object, code) in objects() {
        let bytes = random.random_range(1..=MAX_BLOCKS * plan.shape.block_bytes) as usize;
        let coded = !code.is_virtual && random.random();
        let (content, name) = (OWN_CONTENTS + object as u64, Some(code.name.to_owned()));
        let put_code = if coded { name.clone() } else { None };
        let put =
            Work::Put { object, content, bytes, killed_after_ms: None, coded, code: put_code, policy: None };
        steps.push(Step { at_ms: 0, does: put });
        if !coded {
            steps.push(Step {
                at_ms: 0,
                does: Work::Archive { object, piped: false, code: name, scheme: None },
            });
        }
    }
    if let Some(last) = drawn.len().checked_sub(1) {
        for _ in 0..random.random_range(OWN_STEPS) {
            let at_ms = random.random_range(300..plan.ends_ms);
            let object = OBJECTS + random.random_range(0..=last);
            steps.push(Step { at_ms, does: own(random, drawn, object) });
        }
    }
    steps.sort_by_key(|step| step.at_ms);
    steps
}

fn own(random: &mut StdRng, drawn: &[&Known], object: usize) -> Work {
    let scheme = *["auto", "conventional", "pipeline"].choose(random).unwrap_or(&"auto");
    let index = random.random_range(0..MAX_BLOCKS as usize);
    match random.random_range(0..10) {
        0..4 => Work::RepairBlock { object, index, scheme: scheme.to_owned(), discard: random.random() },
        4 => Work::RepairObject { object },
        5 => match drawn.choose(random) {
            Some(code) if !code.is_virtual => Work::Change { object, code: code.name.to_owned() },
            _ => Work::RepairObject { object },
        },
        6..8 => Work::Get { object },
        _ => Work::GetRange { object, from_permille: 200, to_permille: random.random_range(201..=1000) },
    }
}

/// Adds nodes until there are `needed`.
fn grow(plan: &mut Plan, needed: u32) {
    let new = plan.shape.nodes + 1..=needed;
    for step in &mut plan.faults {
        if let Fault::HurtRecords { nodes, .. } = &mut step.does {
            nodes.extend(new.clone());
        }
    }
    plan.shape.nodes = plan.shape.nodes.max(needed);
}

/// Gives a step one of these codes, or leaves it unchanged.
fn change(random: &mut StdRng, drawn: &[&Known], racks: u32, work: &mut Work) {
    let Some(known) = drawn.choose(random) else { return };
    let name = || Some(known.name.to_owned());
    // Everything is drawn for every step, so that a removed step changes no other.
    let (is_this, is_placed) = (random.random_ratio(3, 5), random.random_ratio(1, 6));
    let scheme = ["pipeline", "pipeline-lanes", "star-lanes"].choose(random).filter(|_| random.random());
    let placed = *["random", "ear-preliminary", "ear"].choose(random).unwrap_or(&"ear");
    match work {
        Work::Put { coded: true, code, .. } if is_this && !known.is_virtual => *code = name(),
        Work::Put { coded: false, code, policy, .. } if is_placed => {
            let policy_of_it = match known.is_virtual {
                true if known.name.starts_with("rapidraid") => Some("rapidraid"),
                false if racks * known.tolerance >= known.stored => Some(placed),
                _ => None,
            };
            if let Some(of_it) = policy_of_it {
                (*code, *policy) = (name(), Some(of_it.to_owned()));
            }
        }
        Work::Archive { piped: false, code, scheme: by, .. } if is_this => {
            *code = name();
            *by = scheme.filter(|_| !known.is_virtual).map(|scheme| (*scheme).to_owned());
        }
        Work::Change { code, .. } if is_this && !known.is_virtual => known.name.clone_into(code),
        _ => {}
    }
}

/// Draws two operators and their nearly simultaneous orders.
fn draw_operators(random: &mut StdRng, plan: &Plan) -> Vec<Vec<Step<Work>>> {
    if !random.random_ratio(1, OPERATORS_ONE_IN) {
        return Vec::new();
    }
    let mut operators = vec![Vec::new(), Vec::new()];
    for _ in 0..random.random_range(1..=3) {
        let at_ms = random.random_range(500..plan.ends_ms - 500);
        for (operator, does) in two_orders(random, plan).into_iter().enumerate() {
            let apart_ms = if operator == 0 { 0 } else { random.random_range(0..APART_MS) };
            if let (Work::Decommission { node }, true) = (&does, random.random_ratio(1, 3)) {
                let at_ms = at_ms + random.random_range(500..3_000);
                operators[operator].push(Step { at_ms, does: Work::Recommission { node: *node } });
            }
            operators[operator].push(Step { at_ms: at_ms + apart_ms, does });
        }
    }
    operators.iter_mut().for_each(|steps| steps.sort_by_key(|step| step.at_ms));
    operators
}

fn two_orders(random: &mut StdRng, plan: &Plan) -> [Work; 2] {
    let nodes = plan.shape.nodes;
    let node = random.random_range(1..=nodes);
    let other = (node + random.random_range(0..nodes - 1)) % nodes + 1;
    // Uses codes that the plan names anyway, so that the cluster is large enough for them.
    let named: Vec<&str> = plan.steps().filter_map(|step| step.does.code()).collect();
    let code = named.choose(random).copied().unwrap_or(&plan.shape.code).to_owned();
    let plain = Work::ArchiveAll { code: code.clone(), change: false };
    let changing = Work::ArchiveAll { code, change: true };
    match random.random_range(0..11) {
        0..3 => [Work::Decommission { node }, Work::Decommission { node: other }],
        3 => [Work::Decommission { node }, Work::RepairNode { node }],
        4 => [Work::Decommission { node }, Work::RepairNode { node: other }],
        5 => [Work::RepairNode { node }, Work::RepairNode { node }],
        6 | 7 => [plain.clone(), plain],
        8 => [Work::Compact, changing],
        9 => [Work::Decommission { node }, plain],
        _ => [Work::Decommission { node }, Work::RepairObject { object: random.random_range(0..OBJECTS) }],
    }
}

fn draw_unread(random: &mut StdRng, plan: &Plan) -> Vec<Step<Fault>> {
    if !random.random_ratio(1, UNREAD_ONE_IN) {
        return Vec::new();
    }
    let count = random.random_range(1..=2);
    let one = |random: &mut StdRng| {
        let at_ms = random.random_range(300..plan.ends_ms - 500);
        let (unread, for_ms) = (unread(random, plan), random.random_range(UNREAD_MS));
        Step { at_ms, does: Fault::Unread { unread, for_ms, draw: random.random() } }
    };
    (0..count).map(|_| one(random)).collect()
}

fn unread(random: &mut StdRng, plan: &Plan) -> Unread {
    let mut nodes: Vec<u32> = (1..=plan.shape.nodes).collect();
    nodes.shuffle(random);
    // Some draws hit so many nodes that something cannot be read at all.
    nodes.truncate(*[1, 1, 1, 2, 2, 3].choose(random).unwrap_or(&1));
    let why = [
        Unreadable::Folders,
        Unreadable::FoldersRefused,
        Unreadable::Copies,
        Unreadable::CopiesRefused,
        Unreadable::Versions,
    ];
    Unread {
        nodes,
        why: *why.choose(random).unwrap_or(&Unreadable::Versions),
        permille: *[200, 500, 1000].choose(random).unwrap_or(&500),
    }
}

fn draw_budgets(random: &mut StdRng) -> Option<Budgets> {
    if !random.random_ratio(1, BUDGETS_ONE_IN) {
        return None;
    }
    let mut one = || *BUDGETS_KBIT.choose(random).unwrap_or(&400);
    Some(Budgets { healing_kbit: one(), archival_kbit: one() })
}

fn draw_trial(random: &mut StdRng, plan: &Plan) -> Option<Step<Fault>> {
    if !random.random_ratio(1, TRIAL_ONE_IN) {
        return None;
    }
    let at_ms = random.random_range(1_500..plan.ends_ms - 500);
    let mut unread = random.random_ratio(2, 3).then(|| unread(random, plan));
    // All copies, because a fraction would often contain none that counts.
    unread.iter_mut().for_each(|unread| unread.permille = 1000);
    let does = Fault::Trial { unread, taking: taking(random), draw: random.random() };
    Some(Step { at_ms, does })
}

fn taking(random: &mut StdRng) -> Taking {
    *[Taking::Stop, Taking::Kill, Taking::Hide].choose(random).unwrap_or(&Taking::Kill)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns a seed's plan without what is drawn here.
    fn without(mut plan: Plan, nodes: u32, clients: usize) -> Plan {
        plan.operators.clear();
        plan.clients.truncate(clients);
        plan.faults.retain(|step| !matches!(step.does, Fault::Unread { .. } | Fault::Trial { .. }));
        (plan.goes_on, plan.trial, plan.budgets, plan.shape.nodes) = (false, None, None, nodes);
        for step in &mut plan.faults {
            if let Fault::HurtRecords { nodes: all, .. } = &mut step.does {
                all.retain(|node| *node <= nodes);
            }
        }
        for step in plan.clients.iter_mut().flatten() {
            match &mut step.does {
                Work::Put { code, policy, .. } => (*code, *policy) = (None, None),
                Work::Archive { code, scheme, .. } => (*code, *scheme) = (None, None),
                Work::Change { code, .. } => code.clear(),
                _ => {}
            }
        }
        plan
    }

    #[test]
    fn the_rest_of_a_plan_is_as_it_was() {
        for seed in 0..500 {
            let before = draw::plan(seed);
            let (nodes, clients) = (before.shape.nodes, before.clients.len());
            assert_eq!(without(plan(seed), nodes, clients), without(before, nodes, clients), "{seed}");
        }
    }

    #[test]
    fn five_hundred_seeds_draw_every_code_policy_and_pair_of_orders() {
        let (mut codes, mut policies, mut orders) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut trials, mut on, mut ends, mut wide) = (0, 0, 0, 0);
        let mut budgets = Vec::new();
        for seed in 0..500 {
            let plan = plan(seed);
            codes.extend(plan.steps().filter_map(|step| step.does.code().map(str::to_owned)));
            for step in plan.steps() {
                if let Work::Put { policy: Some(policy), .. } = &step.does {
                    policies.insert(policy.clone());
                }
            }
            orders.extend(plan.operators.iter().flatten().map(|step| step.does.kind()));
            trials += u32::from(plan.faults.iter().any(|step| matches!(step.does, Fault::Trial { .. })));
            (on, ends) = (on + u32::from(plan.goes_on), ends + u32::from(plan.trial.is_some()));
            wide += u32::from(plan.shape.nodes > 8);
            budgets.extend(plan.budgets.map(|budgets| budgets.healing_kbit));
        }
        let known = codes::FAMILIES.iter().flat_map(|(_, codes)| *codes).map(|code| code.name);
        assert!(known.into_iter().all(|name| codes.contains(name)), "{codes:?}");
        assert!(policies.len() == 4 && orders.len() >= 7, "{policies:?} {orders:?}");
        assert!((70..130).contains(&trials) && (200..300).contains(&on) && (130..210).contains(&ends));
        assert!((20..200).contains(&wide), "{wide}");
        let drawn: BTreeSet<u64> = budgets.iter().copied().collect();
        assert!((130..200).contains(&budgets.len()) && drawn == BTreeSet::from(BUDGETS_KBIT), "{budgets:?}");
    }

    #[test]
    fn every_code_fits_its_cluster() {
        for seed in 0..500 {
            let plan = plan(seed);
            let named = plan.steps().filter_map(|step| step.does.code());
            let widest = named.filter_map(codes::known).map(|code| code.stored).max().unwrap_or(0);
            assert!(widest <= plan.shape.nodes && plan.shape.nodes <= MAX_NODES, "{plan}");
        }
    }
}
