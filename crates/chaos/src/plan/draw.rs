//! Drawing a plan of a seed.

use super::{CatalogDamage, FORMAT, Fault, Files, Plan, RecordsDamage, Shape, Step, Work};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

/// Few, so that every object sees many changes.
pub(super) const OBJECTS: usize = 6;

/// Two stripes of the shortest code, and then some.
pub(super) const MAX_BLOCKS: u64 = 5;

/// A schedule is short, so that many fit into the time of a test run.
const ENDS_MS: std::ops::Range<u64> = 4_000..7_000;

/// Between two things that a client does.
const PAUSE_MS: std::ops::Range<u64> = 0..180;

/// Kinds of faults that one daemon suffers and the cluster should hardly notice.
const PLAIN: u32 = 17;

/// One plan in three has a grave fault: clones, folders set back or swapped, catalogs lost.
const GRAVE_ONE_IN: u32 = 3;

/// Faults of the shim are drawn from a stream of their own: the rest of a seed's plan is as it was before there were any.
const SHIM_STREAM: u64 = 0x7368_696d;

/// Hosts of several nodes too.
const HOST_STREAM: u64 = 0x686f_7374;

/// One plan in three has one, if there are nodes enough.
const HOST_ONE_IN: u32 = 3;

/// Changes of codes, and compactions.
const RECODE_STREAM: u64 = 0x7265_636f_6465;

/// Puts that are coded as they are written.
const CODED_STREAM: u64 = 0x63_6f64_6564;

/// Archivals by pipelines.
const PIPED_STREAM: u64 = 0x70_6970_6564;

/// Of so many archivals one.
const PIPED_ONE_IN: u32 = 4;

/// Of so many puts one.
const CODED_ONE_IN: u32 = 4;

/// One plan in two has some.
const SHIM_ONE_IN: u32 = 2;

/// Damage to the catalog's file, to what nodes keep of the catalog, and to identities.
const CATALOG_STREAM: u64 = 0x63_6174_616c_6f67;

/// One plan in two has some.
const CATALOG_ONE_IN: u32 = 2;

/// Clocks are wrong by thirty of these at most, before or after.
const DAY_MS: i64 = 86_400_000;

/// Draws the part of a plan that existed before `extend.rs`.
pub(super) fn plan(seed: u64) -> Plan {
    let mut plan = without_shim(seed);
    let mut random = StdRng::seed_from_u64(seed ^ SHIM_STREAM);
    if random.random_ratio(1, SHIM_ONE_IN) {
        let by_shim = shim(&mut random, &plan.shape, plan.ends_ms);
        plan.faults.extend(by_shim);
        plan.faults.sort_by_key(|step| step.at_ms);
    }
    let mut random = StdRng::seed_from_u64(seed ^ CATALOG_STREAM);
    if random.random_ratio(1, CATALOG_ONE_IN) {
        let beside_blocks = beside_blocks(&mut random, &plan);
        plan.faults.extend(beside_blocks);
        plan.faults.sort_by_key(|step| step.at_ms);
    }
    plan.shape.host = host(seed, &plan.shape);
    let mut random = StdRng::seed_from_u64(seed ^ RECODE_STREAM);
    for steps in &mut plan.clients {
        steps.extend(recodes(&mut random, &plan.shape.code, plan.ends_ms));
        steps.sort_by_key(|step| step.at_ms);
    }
    let mut random = StdRng::seed_from_u64(seed ^ CODED_STREAM);
    for step in plan.clients.iter_mut().flatten() {
        if let Work::Put { coded, .. } = &mut step.does {
            *coded = random.random_ratio(1, CODED_ONE_IN);
        }
    }
    let mut random = StdRng::seed_from_u64(seed ^ PIPED_STREAM);
    for step in plan.clients.iter_mut().flatten() {
        if let Work::Archive { piped, .. } = &mut step.does {
            *piped = random.random_ratio(1, PIPED_ONE_IN);
        }
    }
    plan
}

/// What makes stripes of others: between codes that survive as many losses, and fit wherever the other one does.
fn recodes(random: &mut StdRng, code: &str, ends_ms: u64) -> Vec<Step<Work>> {
    let other = if code == "rs-2+2" { "rs-3+2" } else { "rs-2+2" };
    let one = |random: &mut StdRng| {
        let at_ms = random.random_range(500..ends_ms);
        let (object, code) = (random.random_range(0..OBJECTS), if random.random() { code } else { other });
        let does = match random.random_ratio(1, 3) {
            true => Work::Compact,
            false => Work::Change { object, code: code.to_owned() },
        };
        Step { at_ms, does }
    };
    (0..random.random_range(1..=6)).map(|_| one(random)).collect()
}

/// Two nodes of one process, of a stream of their own too, where the code leaves a host over.
fn host(seed: u64, shape: &Shape) -> Vec<u32> {
    let mut random = StdRng::seed_from_u64(seed ^ HOST_STREAM);
    let spares = if shape.code == "rs-2+2" { shape.nodes >= 6 } else { shape.nodes >= 8 };
    if !random.random_ratio(1, HOST_ONE_IN) || !spares {
        return Vec::new();
    }
    let mut nodes = two(&mut random, shape).to_vec();
    nodes.sort_unstable();
    nodes
}

/// One or two faults, of different nodes.
fn shim(random: &mut StdRng, shape: &Shape, ends_ms: u64) -> Vec<Step<Fault>> {
    let mut nodes: Vec<u32> = (1..=shape.nodes).collect();
    nodes.shuffle(random);
    nodes.truncate(random.random_range(1..=2));
    let mut faults = Vec::new();
    for node in nodes {
        let at_ms = random.random_range(300..ends_ms - 500);
        let (for_ms, draw) = (random.random_range(200..3_000), random.random());
        let permille = *[200, 500, 1000].choose(random).unwrap_or(&500);
        let does = match random.random_range(0..5) {
            0 => {
                let node = if random.random_ratio(1, 2) { 0 } else { node };
                Fault::ClockJump { node, by_ms: random.random_range(-30 * DAY_MS..30 * DAY_MS), for_ms }
            }
            1 | 2 => {
                let files =
                    *[Files::Pairs, Files::Data, Files::Sidecars].choose(random).unwrap_or(&Files::Data);
                Fault::ReadErrors { node, files, permille, for_ms, draw }
            }
            3 => Fault::WriteErrors { node, permille, for_ms, draw },
            _ => Fault::NoPermission { node, for_ms },
        };
        faults.push(Step { at_ms, does });
    }
    faults
}

/// One or two faults of the catalog's file, of records and of identities, as what else happens allows.
fn beside_blocks(random: &mut StdRng, plan: &Plan) -> Vec<Step<Fault>> {
    let mut faults: Vec<Step<Fault>> = Vec::new();
    for _ in 0..random.random_range(1..=2) {
        let at_ms = random.random_range(500..plan.ends_ms - 500);
        let does = match random.random_range(0..10) {
            0..6 => hurt_catalog(random),
            6..9 => hurt_records(random, &plan.shape),
            _ => Fault::HurtIdentity {
                node: random.random_range(1..=plan.shape.nodes),
                for_ms: random.random_range(100..1_500),
                draw: random.random(),
            },
        };
        faults.push(Step { at_ms, does });
    }
    // Two lives of a coordinator may leave something that is for people to decide: a file is not hurt besides.
    if plan.faults.iter().any(|step| matches!(step.does, Fault::SecondCoordinator { .. })) {
        faults.retain(|step| !matches!(step.does, Fault::HurtCatalog { .. }));
    }
    let hurts_records = faults.iter().any(|step| matches!(step.does, Fault::HurtRecords { .. }));
    let of_history = plan.faults.iter().chain(&faults).filter(|step| step.does.hurts_history()).count();
    for step in &mut faults {
        match &mut step.does {
            // After a kill nobody has asked the nodes whether they have all that they kept.
            Fault::HurtCatalog { is_killed, .. } if hurts_records => *is_killed = false,
            // With only one node left that has all records, the file must be there.
            Fault::HurtRecords { count, .. } if of_history > 1 => *count = 1,
            _ => {}
        }
    }
    faults
}

fn hurt_catalog(random: &mut StdRng) -> Fault {
    let damage = match random.random_range(0..5) {
        0 => CatalogDamage::Bits { count: random.random_range(1..=4) },
        1 => CatalogDamage::RowBits { count: random.random_range(1..=4) },
        2 => CatalogDamage::RowEverywhere,
        3 => CatalogDamage::Pages { count: 1, by_ms: random.random_range(300..2_000) },
        _ => {
            let (count, by_ms) = (random.random_range(2..=6), random.random_range(300..2_000));
            CatalogDamage::Pages { count, by_ms }
        }
    };
    let (is_killed, is_watched) = (random.random_ratio(1, 3), random.random_ratio(1, 2));
    Fault::HurtCatalog { damage, is_killed, is_watched, draw: random.random() }
}

fn hurt_records(random: &mut StdRng, shape: &Shape) -> Fault {
    let mut nodes: Vec<u32> = (1..=shape.nodes).collect();
    nodes.shuffle(random);
    let damage = match random.random_range(0..3) {
        0 => RecordsDamage::Bit,
        1 => RecordsDamage::Tail,
        _ => RecordsDamage::Back { by_ms: random.random_range(300..2_000) },
    };
    let (count, for_ms) = (random.random_range(1..=2), random.random_range(0..1_500));
    Fault::HurtRecords { nodes, count, damage, for_ms, draw: random.random() }
}

pub(super) fn without_shim(seed: u64) -> Plan {
    let mut random = StdRng::seed_from_u64(seed);
    let shape = shape(&mut random);
    let ends_ms = random.random_range(ENDS_MS);
    let clients = random.random_range(2..=3);
    let mut contents = 0;
    let clients = (0..clients).map(|_| client(&mut random, &shape, ends_ms, &mut contents)).collect();
    let faults = faults(&mut random, &shape, ends_ms);
    let operators = Vec::new();
    Plan {
        format: FORMAT,
        seed,
        shape,
        clients,
        operators,
        faults,
        ends_ms,
        goes_on: false,
        budgets: None,
        trial: None,
    }
}

fn shape(random: &mut StdRng) -> Shape {
    let nodes = random.random_range(5..=8);
    let wide = if nodes >= 7 { "rs-4+2" } else { "rs-3+2" };
    let code = if random.random_ratio(1, 2) { "rs-2+2" } else { wide };
    let mut small: Vec<u32> = (1..=nodes).collect();
    small.shuffle(random);
    small.truncate(random.random_range(0..=2));
    small.sort_unstable();
    Shape {
        nodes,
        racks: random.random_range(2..=3),
        block_bytes: *[32 << 10, 64 << 10].choose(random).unwrap_or(&(64 << 10)),
        code: code.to_owned(),
        host: Vec::new(),
        small_disks: small,
        heartbeat_ms: 250,
        dead_after_ms: 1_500,
        garbage_grace_ms: *[1_000, 1_000, 2_500].choose(random).unwrap_or(&1_000),
        put_lease_ms: 4_000,
        recovery_grace_s: random.random_range(1..=4),
    }
}

fn client(random: &mut StdRng, shape: &Shape, ends_ms: u64, contents: &mut u64) -> Vec<Step<Work>> {
    let mut steps = Vec::new();
    // All begin with puts, or there is nothing to work on.
    for object in 0..OBJECTS {
        if random.random_ratio(1, 2) {
            steps.push(Step { at_ms: 0, does: put(random, shape, object, contents) });
        }
    }
    let mut at_ms = 0;
    while at_ms < ends_ms {
        at_ms += random.random_range(PAUSE_MS);
        steps.push(Step { at_ms, does: work(random, shape, contents) });
    }
    steps
}

fn put(random: &mut StdRng, shape: &Shape, object: usize, contents: &mut u64) -> Work {
    *contents += 1;
    let bytes = random.random_range(1..=MAX_BLOCKS * shape.block_bytes) as usize;
    Work::Put {
        object,
        content: *contents,
        bytes,
        killed_after_ms: None,
        coded: false,
        code: None,
        policy: None,
    }
}

fn work(random: &mut StdRng, shape: &Shape, contents: &mut u64) -> Work {
    let object = random.random_range(0..OBJECTS);
    let node = random.random_range(1..=shape.nodes);
    match random.random_range(0..100) {
        0..22 => put(random, shape, object, contents),
        22..25 => match put(random, shape, object, contents) {
            Work::Put { object, content, bytes, coded, code, policy, .. } => {
                let killed_after_ms = Some(random.random_range(1..60));
                Work::Put { object, content, bytes, killed_after_ms, coded, code, policy }
            }
            other => other,
        },
        25..33 => Work::Delete { object },
        33..48 => Work::Get { object },
        48..58 => {
            let (a, b) = (random.random_range(0..1000), random.random_range(0..1000));
            Work::GetRange { object, from_permille: a.min(b), to_permille: a.max(b) + 1 }
        }
        58..78 => Work::Archive { object, piped: false, code: None, scheme: None },
        78..85 => {
            let scheme = ["auto", "conventional", "pipeline"].choose(random).unwrap_or(&"auto");
            Work::RepairBlock {
                object,
                index: random.random_range(0..MAX_BLOCKS as usize),
                scheme: (*scheme).to_owned(),
                discard: random.random(),
            }
        }
        85..90 => Work::RepairObject { object },
        90..92 => Work::RepairNode { node },
        92..94 => Work::Decommission { node },
        94..97 => Work::Recommission { node },
        97..99 => Work::List,
        _ => Work::Scrub,
    }
}

fn faults(random: &mut StdRng, shape: &Shape, ends_ms: u64) -> Vec<Step<Fault>> {
    let mut faults = Vec::new();
    for _ in 0..random.random_range(2..=6) {
        let at_ms = random.random_range(300..ends_ms - 500);
        faults.push(Step { at_ms, does: plain(random, shape) });
    }
    if random.random_ratio(1, GRAVE_ONE_IN) {
        let at_ms = random.random_range(500..ends_ms - 1_000);
        faults.push(Step { at_ms, does: grave(random, shape) });
    }
    faults.sort_by_key(|step| step.at_ms);
    faults
}

fn plain(random: &mut StdRng, shape: &Shape) -> Fault {
    let node = random.random_range(1..=shape.nodes);
    let for_ms = random.random_range(200..3_000);
    let draw = random.random();
    let files = *[Files::Data, Files::Data, Files::Sidecars].choose(random).unwrap_or(&Files::Data);
    match random.random_range(0..PLAIN) {
        0 => Fault::Kill { node, for_ms },
        // Long enough to be dead, recovered, and to come back to what was done meanwhile.
        1 => Fault::Kill { node, for_ms: for_ms + 3_000 },
        2 => Fault::Kill { node: 0, for_ms: for_ms / 4 },
        3 => Fault::KillTwo { nodes: two(random, shape), for_ms },
        4 => Fault::Restart { node: if random.random_ratio(1, 3) { 0 } else { node } },
        5 => Fault::Stop { node, for_ms },
        6 => Fault::Stop { node: 0, for_ms: for_ms / 2 },
        7 => match random.random_ratio(1, 2) {
            true => Fault::CutConnections { node: random.random_range(0..=shape.nodes) },
            false => Fault::Partition { node: random.random_range(0..=shape.nodes), for_ms },
        },
        8 => {
            let other = (node + random.random_range(1..=shape.nodes)) % (shape.nodes + 1);
            Fault::CutPair { nodes: [node, other], for_ms }
        }
        9 => {
            let files = *[Files::Pairs, Files::Data, Files::Sidecars].choose(random).unwrap_or(&Files::Pairs);
            let permille = *[200, 500, 1000].choose(random).unwrap_or(&500);
            Fault::Hide { node, files, permille, for_ms, draw }
        }
        10 => Fault::Flip { node, files, count: random.random_range(1..=3), draw },
        11 => Fault::Truncate { node, files, count: random.random_range(1..=2), draw },
        12 => Fault::FutureVersion { node, count: random.random_range(1..=5), for_ms, draw },
        13 => Fault::FolderAway { node, for_ms },
        14 => Fault::FewDescriptors {
            node: if random.random_ratio(1, 5) { 0 } else { node },
            free: random.random_range(0..=3),
            for_ms,
            restart_coordinator: false,
        },
        15 => Fault::FewDescriptors {
            node,
            free: random.random_range(0..=3),
            for_ms,
            restart_coordinator: true,
        },
        _ => match shape.small_disks.choose(random) {
            Some(&node) => Fault::FullDisk { node, left_bytes: random.random_range(0..100_000), for_ms },
            None => Fault::Restart { node },
        },
    }
}

fn grave(random: &mut StdRng, shape: &Shape) -> Fault {
    let node = random.random_range(1..=shape.nodes);
    let for_ms = random.random_range(500..3_000);
    let by_ms = random.random_range(500..2_500);
    let whole: Vec<u32> = (1..=shape.nodes).filter(|node| !shape.small_disks.contains(node)).collect();
    match random.random_range(0..7) {
        0 => Fault::Clone { node, for_ms },
        1 => Fault::SetBackNode { node, by_ms },
        2 => Fault::SetBackCoordinator { by_ms },
        3 => Fault::SetBackCluster { by_ms },
        // Folders are swapped by their names, which a disk of its own keeps.
        4 => match whole.choose_multiple(random, 2).copied().collect::<Vec<u32>>()[..] {
            [a, b] => Fault::Swap { nodes: [a, b], for_ms },
            _ => Fault::LoseCatalog,
        },
        5 => {
            let count = random.random_range(1..=shape.nodes as usize);
            let mut nodes: Vec<u32> = (1..=shape.nodes).collect();
            nodes.shuffle(random);
            nodes.truncate(count);
            Fault::SecondCoordinator { nodes, by_ms, for_ms }
        }
        _ => Fault::LoseCatalog,
    }
}

fn two(random: &mut StdRng, shape: &Shape) -> [u32; 2] {
    let first = random.random_range(1..=shape.nodes);
    let second = (first + random.random_range(0..shape.nodes - 1)) % shape.nodes + 1;
    [first, second]
}
