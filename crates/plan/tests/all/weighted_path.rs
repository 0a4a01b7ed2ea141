//! Weighted path selection (RP §4.3) against the exhaustive answers.

#![allow(clippy::unwrap_used)] // a test may

use plan::Draw;
use plan::PlanError;
use plan::path::{LinkMatrix, SEARCH_STEPS, WeightedPath, weighted_path};

/// Weights of a few kinds: all different, many equal, some links missing.
fn random_rows(nodes: usize, draw: &mut Draw) -> Vec<Vec<f64>> {
    let kind = draw.below(4);
    let mut weight = |_| match kind {
        0 => draw.below(1 << 30) as f64,
        1 => draw.below(3) as f64,
        2 if draw.below(3) == 0 => f64::INFINITY,
        3 if draw.below(10) < 7 => f64::INFINITY,
        _ => draw.below(20) as f64,
    };
    (0..nodes).map(|_| (0..nodes).map(&mut weight).collect()).collect()
}

/// The smallest largest weight of a path of `k` of `helpers` to `head`, by trying every path.
fn exhaustive(rows: &[Vec<f64>], helpers: &[usize], k: usize, head: usize) -> f64 {
    if k == 0 {
        return 0.0;
    }
    let mut best = f64::INFINITY;
    for &helper in helpers {
        let others: Vec<usize> = helpers.iter().copied().filter(|&other| other != helper).collect();
        best = best.min(rows[helper][head].max(exhaustive(rows, &others, k - 1, helper)));
    }
    best
}

/// The same by dynamic programming over sets of helpers: they are nodes 1 … n−1 and the requestor is node 0.
fn by_subsets(rows: &[Vec<f64>], k: usize) -> f64 {
    let helpers = rows.len() - 1;
    // For a set in use and the helper that the path over it ends with.
    let mut least = vec![vec![f64::INFINITY; helpers]; 1 << helpers];
    let mut best = f64::INFINITY;
    for set in 1_usize..1 << helpers {
        for last in (0..helpers).filter(|last| set >> last & 1 == 1) {
            let before = set & !(1 << last);
            let so_far = |from: usize| least[before][from].max(rows[from + 1][last + 1]);
            least[set][last] = match before {
                0 => 0.0,
                _ => (0..helpers)
                    .filter(|from| before >> from & 1 == 1)
                    .map(so_far)
                    .fold(f64::INFINITY, f64::min),
            };
            if set.count_ones() as usize == k {
                best = best.min(least[set][last].max(rows[last + 1][0]));
            }
        }
    }
    best
}

/// That the path is one, over helpers that were offered, and as heavy as it says.
fn check(found: &WeightedPath, rows: &[Vec<f64>], helpers: &[usize], k: usize, requestor: usize) {
    let (end, on_path) = found.path.split_last().unwrap();
    assert_eq!((*end, on_path.len()), (requestor, k));
    let mut sorted = on_path.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert!(sorted.len() == k && sorted.iter().all(|node| helpers.contains(node)));
    let heaviest = found.path.windows(2).map(|link| rows[link[0]][link[1]]).fold(0.0, f64::max);
    assert_eq!(heaviest, found.max_weight);
}

#[test]
fn small_cases_are_as_good_as_every_path_tried() {
    let mut draw = Draw::seeded(43);
    let (mut none, mut all_chosen) = (0, 0);
    for case in 0..3_000 {
        let nodes = 2 + draw.below(6);
        let rows = random_rows(nodes, &mut draw);
        let mut helpers: Vec<usize> = (0..nodes).collect();
        draw.shuffle(&mut helpers);
        let requestor = helpers.pop().unwrap();
        helpers.truncate(1 + draw.below(helpers.len()));
        let k = 1 + draw.below(helpers.len());
        let links = LinkMatrix::from_rows(&rows).unwrap();
        let best = exhaustive(&rows, &helpers, k, requestor);
        match weighted_path(&links, &helpers, k, requestor, SEARCH_STEPS) {
            Ok(found) => {
                check(&found, &rows, &helpers, k, requestor);
                assert_eq!((found.max_weight, found.proven), (best, true), "case {case}");
                all_chosen += usize::from(k == helpers.len());
            }
            Err(error) => {
                assert_eq!((error, best), (PlanError::NoPath { helpers: k, requestor }, f64::INFINITY));
                none += 1;
            }
        }
    }
    assert!(none > 300 && all_chosen > 300, "{none} without a path, {all_chosen} of exactly k helpers");
}

#[test]
fn stripes_of_the_papers_size_are_solved_and_proved() {
    let mut draw = Draw::seeded(1410);
    let helpers: Vec<usize> = (1..14).collect();
    for _ in 0..30 {
        let rows = random_rows(14, &mut draw);
        let best = by_subsets(&rows, 10);
        match weighted_path(&LinkMatrix::from_rows(&rows).unwrap(), &helpers, 10, 0, SEARCH_STEPS) {
            Ok(found) => {
                check(&found, &rows, &helpers, 10, 0);
                assert_eq!((found.max_weight, found.proven), (best, true));
            }
            Err(_) => assert_eq!(best, f64::INFINITY),
        }
    }
}

#[test]
fn a_search_that_is_cut_off_never_claims_more_than_it_knows() {
    let mut draw = Draw::seeded(7);
    let helpers: Vec<usize> = (1..12).collect();
    let (mut unproven, mut worse, mut given_up) = (0, 0, 0);
    for _ in 0..100 {
        let rows = random_rows(12, &mut draw);
        let links = LinkMatrix::from_rows(&rows).unwrap();
        let best = by_subsets(&rows, 9);
        for steps in [0, 5, 20, 60, 150] {
            match weighted_path(&links, &helpers, 9, 0, steps) {
                Ok(found) => {
                    check(&found, &rows, &helpers, 9, 0);
                    assert!(found.max_weight >= best && (found.max_weight == best || !found.proven));
                    unproven += usize::from(!found.proven);
                    worse += usize::from(found.max_weight > best);
                }
                Err(PlanError::SearchCutOff { steps: told }) => given_up += usize::from(told == steps),
                Err(error) => {
                    assert_eq!(error, PlanError::NoPath { helpers: 9, requestor: 0 });
                    assert_eq!(best, f64::INFINITY);
                }
            }
        }
    }
    assert!(unproven > 20 && worse > 10 && given_up > 50, "{unproven} {worse} {given_up}");
}

/// More helpers than a word has bits. Only links from each node to the one before it are cheap, so there is one
/// best path.
#[test]
fn wide_stripes_work_too() {
    let nodes = 200;
    let weight = |from: usize, to: usize| if from == to + 1 { 1.0 } else { 5.0 };
    let rows: Vec<Vec<f64>> =
        (0..nodes).map(|from| (0..nodes).map(|to| weight(from, to)).collect()).collect();
    let links = LinkMatrix::from_rows(&rows).unwrap();
    let helpers: Vec<usize> = (1..nodes).collect();
    let found = weighted_path(&links, &helpers, 180, 0, SEARCH_STEPS).unwrap();
    assert_eq!(found, WeightedPath { path: (0..=180).rev().collect(), max_weight: 1.0, proven: true });
}

#[test]
fn weights_may_sit_on_nodes() {
    let links = LinkMatrix::from_rows(&[[1.0; 4]; 4]).unwrap();
    let slow = links.with_node_costs(&[2.0, 9.0, 1.0, 3.0]).unwrap();
    let found = weighted_path(&slow, &[1, 2, 3], 2, 0, SEARCH_STEPS).unwrap();
    assert_eq!(found.max_weight, 3.0);
    assert!(!found.path.contains(&1));
    assert_eq!(weighted_path(&slow, &[2], 1, 0, SEARCH_STEPS).unwrap().max_weight, 2.0);
}

#[test]
fn nonsense_is_told_apart() {
    let square = LinkMatrix::from_rows(&[[1.0; 3]; 3]).unwrap();
    let path = |helpers: &[usize], k, requestor| weighted_path(&square, helpers, k, requestor, SEARCH_STEPS);
    assert_eq!(path(&[1, 2], 0, 0), Err(PlanError::NoHelpers));
    assert_eq!(path(&[1, 2], 3, 0), Err(PlanError::NotEnoughHelpers { needed: 3, available: 2 }));
    assert_eq!(path(&[1, 3], 1, 0), Err(PlanError::NoSuchNode { node: 3, nodes: 3 }));
    assert_eq!(path(&[1, 2], 1, 5), Err(PlanError::NoSuchNode { node: 5, nodes: 3 }));
    assert_eq!(path(&[1, 0], 1, 0), Err(PlanError::RepeatedNode { node: 0 }));
    assert_eq!(path(&[1, 1], 1, 0), Err(PlanError::RepeatedNode { node: 1 }));
    let rows = |rows: &[&[f64]]| LinkMatrix::from_rows(rows).map(|_| ());
    assert_eq!(rows(&[&[0.0, 1.0], &[1.0]]), Err(PlanError::NotSquare { row: 1, columns: 1, rows: 2 }));
    assert_eq!(rows(&[&[0.0, -1.0], &[1.0, 0.0]]), Err(PlanError::BadLink { from: 0, to: 1 }));
    assert_eq!(rows(&[&[0.0, 1.0], &[f64::NAN, 0.0]]), Err(PlanError::BadLink { from: 1, to: 0 }));
    assert_eq!(rows(&[]), Ok(()));
    let wide = LinkMatrix::from_rows(&vec![vec![1.0; 257]; 257]).unwrap();
    let too_many = weighted_path(&wide, &[1], 1, 0, SEARCH_STEPS);
    assert_eq!(too_many, Err(PlanError::TooManyNodes { nodes: 257, most: 256 }));
    let costs = |costs: &[f64]| square.clone().with_node_costs(costs).map(|_| ());
    assert_eq!(costs(&[1.0]), Err(PlanError::WrongNodeCount { given: 1, nodes: 3 }));
    assert_eq!(costs(&[1.0, -0.5, 0.0]), Err(PlanError::BadNode { node: 1 }));
}
