//! Against closed forms, and the paper's table.

#![allow(clippy::unwrap_used)] // a test may

use super::chain::Chain;
use super::*;

const HOURS: f64 = 24.0 * 365.25;

fn survival(code: &str) -> Survival {
    Code::parse(code).unwrap().survival().unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

fn rates(node: f64, repair: f64) -> Rates {
    Rates { node, rack: 0.0, lost_with_rack: 0.0, repair }
}

/// Mean time from 0 to `f`+1 losses of a birth-death chain: the sum of the times from each state to the next, each of which
/// is one over the rate of failure, and the way back as often as repairs come first.
fn birth_death(n: usize, f: usize, node: f64, repair: f64) -> f64 {
    let (mut sum, mut step) = (0.0, 0.0);
    for lost in 0..=f {
        let failing = (n - lost) as f64 * node;
        let repairing = if lost > 0 { repair } else { 0.0 };
        step = 1.0 / failing + repairing / failing * step;
        sum += step;
    }
    sum
}

#[test]
fn static_resilience_of_replicas_and_mds_codes_is_the_binomial() {
    let replicas = survival("rep-3").resilience(0.1);
    assert!(close(replicas.loss, 1e-3) && replicas.error == 0.0, "{replicas:?}");
    let rs = survival("rs-11+5");
    let by_hand = |p: f64| {
        (6..=16)
            .map(|f| patterns(16, f) as f64 * p.powi(f as i32) * (1.0 - p).powi(16 - f as i32))
            .sum::<f64>()
    };
    for p in [0.2, 0.1, 0.01, 0.001] {
        assert!(close(rs.resilience(p).loss, by_hand(p)), "{p}");
    }
}

#[test]
fn wide_stripes_have_their_chances_too() {
    for (all, p) in [(512, 0.5), (512, 0.001), (220, 0.9), (3, 0.0), (3, 1.0), (0, 0.3)] {
        let chances = binomial(all, p);
        let mean: f64 = (0..).zip(&chances).map(|(hits, chance)| f64::from(hits) * chance).sum();
        assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-9 && chances.len() == all + 1, "{all} {p}");
        assert!((mean - all as f64 * p).abs() < 1e-6, "{all} {p}: {mean}");
    }
    // Of 220 nodes 44 are down, more than the 20 that may be.
    let wide = survival("rs-200+20").resilience(0.2);
    assert!(wide.loss > 0.9999 && wide.loss <= 1.0 + 1e-9, "{wide:?}");
}

/// RapidRAID, table I: its rows of replicas and of the classical code, which are rounded down.
#[test]
fn nines_are_those_of_the_papers_table() {
    let row =
        |code: &str| [0.2, 0.1, 0.01, 0.001].map(|p| survival(code).resilience(p).nines().floor() as i32);
    assert_eq!(row("rep-3"), [2, 3, 6, 9]);
    // The paper prints 1 2 8 14 for the classical code.
    assert_eq!(row("rs-11+5"), [1, 2, 8, 14]);
}

#[test]
fn a_sample_holds_the_exact_part_within_its_error() {
    let code = Code::parse("rapidraid-8+8").unwrap();
    for losses in 4..=8 {
        let (exact, sampled) = (code.survival().unwrap().of(losses), code.sampled(losses));
        assert!(
            (exact.survived - sampled.survived).abs() <= 2.0 * sampled.error,
            "{losses}: {exact:?} {sampled:?}"
        );
        assert!(sampled.error > 0.0 && sampled.error < 0.01, "{sampled:?}");
    }
    assert!(survival("rapidraid-8+8").is_exact());
}

#[test]
fn a_chain_knows_the_closed_form_of_one_parity() {
    // RAID 5 of n disks: ((2n−1)λ + μ) / (n(n−1)λ²).
    let (n, node, repair) = (8.0, 1.0 / (4.0 * HOURS), 1.0 / 10.0);
    let closed = ((2.0 * n - 1.0) * node + repair) / (n * (n - 1.0) * node * node);
    let ours = mttdl_hours(&survival("rs-7+1"), &Layout::flat(8), &rates(node, repair)).unwrap();
    assert!(close(ours, closed), "{ours} {closed}");
}

#[test]
fn without_racks_a_layout_is_a_birth_death_chain() {
    for (code, n, f) in [("rep-3", 3, 2), ("rs-10+4", 14, 4), ("rs-11+5", 16, 5), ("rs-4+2", 6, 2)] {
        for (node, repair) in [(1.0 / (4.0 * HOURS), 1.0), (1e-5, 1e-5), (1e-9, 1e3)] {
            for layout in [Layout::flat(n), Layout::of(n, 2), Layout::of(n, 3)] {
                let ours = mttdl_hours(&survival(code), &layout, &rates(node, repair)).unwrap();
                let closed = birth_death(n, f, node, repair);
                assert!(close(ours, closed), "{code} {layout:?}: {ours} {closed}");
            }
        }
    }
}

#[test]
fn whole_racks_that_fail_are_a_chain_of_racks() {
    // Four racks of two blocks, of which only whole ones fail, for good: a chain over racks that survives two.
    let survival = survival("rs-4+4");
    let rates = Rates { node: 0.0, rack: 1e-4, lost_with_rack: 1.0, repair: 0.0 };
    let ours = mttdl_hours(&survival, &Layout::of(8, 2), &rates).unwrap();
    assert!(close(ours, birth_death(4, 2, 1e-4, 0.0)), "{ours}");
    // All in one rack: its first failure is the end.
    assert!(close(mttdl_hours(&survival, &Layout::of(8, 8), &rates).unwrap(), 1e4));
    // A rack that comes back whole harms nobody.
    let harmless = Rates { lost_with_rack: 0.0, ..rates };
    assert_eq!(mttdl_hours(&survival, &Layout::flat(8), &harmless).unwrap(), f64::INFINITY);
}

/// RP §4.2: fewer racks are worth it where they make repairs faster and racks fail rarely; else they are not.
#[test]
fn fewer_racks_pay_where_repair_gets_faster_and_racks_hold() {
    let survival = survival("rs-6+3");
    let hours = |layout: Layout, repair: f64, rack: f64| {
        let rates = Rates { node: 1.0 / (4.0 * HOURS), rack, lost_with_rack: 0.01, repair };
        mttdl_hours(&survival, &layout, &rates).unwrap()
    };
    let (flat, few) = (Layout::flat(9), Layout::of(9, 3));
    let rare = 1.0 / (100_000.0 * HOURS);
    assert!(hours(few.clone(), 3.0, rare) > hours(flat.clone(), 1.0, rare));
    assert!(hours(few, 3.0, 1.0 / HOURS) < hours(flat, 1.0, 1.0 / HOURS));
}

#[test]
fn codes_that_survive_some_patterns_only_lie_between() {
    let rates = rates(1e-4, 1e-1);
    let hours = |code: &str, n| mttdl_hours(&survival(code), &Layout::flat(n), &rates).unwrap();
    let (worse, ours, better) =
        (birth_death(16, 3, 1e-4, 1e-1), hours("rapidraid-11+5", 16), hours("rs-11+5", 16));
    assert!(worse < ours && ours < better, "{worse} {ours} {better}");
}

#[test]
fn too_many_states_are_refused() {
    let wide = survival("rs-60+40");
    let refused = mttdl_hours(&wide, &Layout::of(100, 10), &rates(1e-4, 1.0)).unwrap_err();
    assert!(refused.to_string().contains("states"), "{refused}");
}

#[test]
fn a_chain_that_never_ends_lasts_for_ever() {
    let mut chain = Chain::new(2);
    chain.add(0, 1, 1.0);
    assert_eq!(chain.clone().time_to_end(), f64::INFINITY);
    chain.add(1, 0, 1.0);
    assert_eq!(chain.time_to_end(), f64::INFINITY);
}
