//! Cyclic paths (RP §4.1): who is where in them, what each carries, how long they take.

use std::collections::BTreeSet;

use plan::path::{cyclic_lane_of, cyclic_lanes, cyclic_share, cyclic_timeslots};

#[test]
fn lanes_are_the_rotations_of_the_paper() {
    assert_eq!(cyclic_lanes(&[1, 2, 3, 4]), [[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2]]);
    assert_eq!(cyclic_lanes(&[1, 2]), [[1, 2]]);
    assert_eq!(cyclic_lanes(&[1]), [[1]]);
    assert!(cyclic_lanes::<u8>(&[]).is_empty());
}

#[test]
fn slices_are_shared_out_evenly() {
    for lanes in 1..12 {
        for slices in 0..60 {
            let mut counted = vec![0; lanes];
            (0..slices).for_each(|slice| counted[cyclic_lane_of(slice, lanes)] += 1);
            let shares: Vec<u64> = (0..lanes).map(|lane| cyclic_share(slices, lane, lanes)).collect();
            assert_eq!(counted, shares);
            assert!(shares.iter().max().unwrap_or(&0) - shares.iter().min().unwrap_or(&0) <= 1);
        }
    }
}

/// Every transfer at the step at which the module's text has it: no node may send two slices at once or receive
/// two, and all is over as early as promised.
#[test]
fn no_link_is_used_twice_at_once_and_the_time_is_as_promised() {
    const R: usize = 1_000;
    for k in 1..14 {
        let lanes = cyclic_lanes(&(0..k).collect::<Vec<usize>>());
        let steps = lanes.len();
        for slices in 1..45 {
            let (mut sending, mut receiving) = (BTreeSet::new(), BTreeSet::new());
            let mut end = 0;
            for slice in 0..slices {
                let lane = cyclic_lane_of(slice, lanes.len());
                let group = slice as usize / lanes.len();
                let mut path = lanes[lane].clone();
                path.push(R);
                for (hop, link) in path.windows(2).enumerate() {
                    let delivers = hop + 1 == k;
                    // A single helper has nothing to do before it delivers.
                    let step = match delivers {
                        true => (group + usize::from(k > 1)) * steps + lane,
                        false => group * steps + hop,
                    };
                    assert!(sending.insert((step, link[0])), "k={k} s={slices}: {} sends twice", link[0]);
                    assert!(
                        receiving.insert((step, link[1])),
                        "k={k} s={slices}: {} receives twice",
                        link[1]
                    );
                    end = end.max(step + 1);
                }
            }
            let promised = cyclic_timeslots(k, slices) * slices as f64;
            assert!(
                (end as f64 - promised).abs() < 1e-9,
                "k={k} s={slices}: {end} steps, {promised} promised"
            );
        }
    }
}
