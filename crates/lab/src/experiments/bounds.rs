//! What the timeslot model allows: a timeslot is one block over one link, on equal full-duplex links, and nothing but
//! the network takes time (RP §2.2, §3.2). Kept apart from the planner's own predictions, so as to check them.

/// Timeslots that `scheme` takes to rebuild a block from k others in so many slices, at best; `None` if no model is
/// known here.
pub fn timeslots(scheme: &str, k: usize, slices: u64) -> Option<f64> {
    let (k_slots, s) = (k as f64, slices.max(1) as f64);
    Some(match scheme {
        // All k blocks through the requestor's port.
        "conventional" => k_slots,
        // Serial helpers acknowledge a slice before they send it on: links still work at the same time, and what the
        // model does not count, a round trip and the work per slice, is what Pipe-S is about (RP §6.4).
        "pipeline" | "pipe-s" => 1.0 + (k_slots - 1.0) / s,
        "ppr" => f64::from(Tree::of(k).rounds),
        "ppr-sliced" => {
            let tree = Tree::of(k);
            f64::from(tree.largest_in_degree) + f64::from(tree.depth - 1) / s
        }
        // One hop after the other.
        "pipe-b" => k_slots,
        _ => return None,
    })
}

/// Timeslots for `blocks` lost blocks of a stripe in one pass, each to a requestor of its own (RP §2.2, §4.4; streamed, and
/// sub-slices sent on as soon as they are ready). The star's requestor receives k blocks, and sends the others' meanwhile;
/// the chain's links carry all lost blocks.
pub fn timeslots_of_several(scheme: &str, k: usize, blocks: usize, slices: u64) -> Option<f64> {
    let (k_slots, lost, s) = (k as f64, blocks as f64, slices.max(1) as f64);
    Some(match scheme {
        _ if blocks == 1 => return timeslots(scheme, k, slices),
        "conventional" => k_slots.max(lost - 1.0) + (lost - 1.0) / s,
        "pipeline" => lost + (k_slots - 1.0) / s,
        _ => return None,
    })
}

/// The reduction tree of PPR over k helpers and the requestor: in each timeslot neighbours pair up, and the one nearer
/// to the requestor takes the other's sum.
struct Tree {
    rounds: u32,
    largest_in_degree: u32,
    depth: u32,
}

impl Tree {
    fn of(k: usize) -> Tree {
        // (in-degree, depth) of those that still hold a sum; the requestor is the last.
        let mut holders = vec![(0_u32, 0_u32); k + 1];
        let mut tree = Tree { rounds: 0, largest_in_degree: 0, depth: 0 };
        while holders.len() > 1 {
            tree.rounds += 1;
            let takes = |pair: &[(u32, u32)]| match *pair {
                [from, to] => (to.0 + 1, to.1.max(from.1 + 1)),
                _ => pair[0],
            };
            holders = holders.chunks(2).map(takes).collect();
            tree.largest_in_degree =
                holders.iter().map(|h| h.0).max().unwrap_or(0).max(tree.largest_in_degree);
        }
        tree.depth = holders.first().map_or(0, |h| h.1);
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_blocks_cost_a_chain_their_number_and_a_star_hardly_more() {
        let (star, chain) = (
            timeslots_of_several("conventional", 10, 4, 2048),
            timeslots_of_several("pipeline", 10, 4, 2048),
        );
        assert!((star.unwrap() - 10.0).abs() < 0.01 && (chain.unwrap() - 4.0).abs() < 0.01);
        assert_eq!(timeslots_of_several("pipeline", 10, 1, 6), timeslots("pipeline", 10, 6));
        assert_eq!(timeslots_of_several("ppr", 10, 2, 6), None);
    }

    #[test]
    fn bounds_are_those_of_the_papers() {
        // RP §2.2 and §3.2 at k = 4; PPR takes ⌈log2(k+1)⌉.
        assert_eq!(timeslots("conventional", 4, 6), Some(4.0));
        assert_eq!(timeslots("ppr", 4, 6), Some(3.0));
        assert_eq!(timeslots("pipeline", 4, 6), Some(1.5));
        assert_eq!(timeslots("auto", 4, 6), None);
        // A chain of whole blocks is one of a single slice.
        assert_eq!(timeslots("pipe-b", 10, 1), timeslots("pipeline", 10, 1));
        for k in 1..40_usize {
            let rounds = usize::BITS - k.leading_zeros();
            assert_eq!(Tree::of(k).rounds, rounds, "{k}");
        }
        // Streamed, a tree takes its largest in-degree: 2 at k = 6, 3 from 8 to 12 (RP §6.1).
        let in_degrees = [6, 8, 10, 12].map(|k| Tree::of(k).largest_in_degree);
        assert_eq!(in_degrees, [2, 3, 3, 3]);
        for (scheme, limit) in [("ppr-sliced", 3.0), ("pipeline", 1.0)] {
            assert!((timeslots(scheme, 10, 2048).unwrap() - limit).abs() < 0.01, "{scheme}");
        }
    }
}
