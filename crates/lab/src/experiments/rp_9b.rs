//! RP Figure 9(b): repair of one block over four regions of Asia.

use super::Experiment;
use super::regions::{self, Continent};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-9b",
    title: "Single-block repair time between regions of Asia",
    paper: "repair pipelining, Figure 9(b) and Table 1(b); RS(16,12) over 4 × 4 instances of Amazon EC2, requestor in each \
            region: repair pipelining over a random path saves 66.6…87.1 % of PPR's time, over the optimal path a further \
            14.5…45.0 %.",
    must_show: "savings in these ranges or better for every region, and every scheme within 10 % of its own bound.",
    run: |bench| regions::run(bench, &EXPERIMENT, &ASIA),
    compare: |results| regions::compare(results, &ASIA),
};

/// Table 1(b).
const ASIA: Continent = Continent {
    regions: ["Mumbai", "Seoul", "Singapore", "Tokyo"],
    mbit: [
        [624.8, 62.3, 39.5, 37.7],
        [63.8, 265.7, 86.1, 183.2],
        [41.5, 88.1, 493.0, 49.1],
        [39.7, 181.0, 46.9, 489.1],
    ],
    over_ppr: (0.334, 0.129),
    over_random: (0.855, 0.550),
};
