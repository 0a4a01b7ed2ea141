//! RP Figure 9(a): repair of one block over four regions of North America.

use super::Experiment;
use super::regions::{self, Continent};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-9a",
    title: "Single-block repair time between regions of North America",
    paper: "repair pipelining, Figure 9(a) and Table 1(a); RS(16,12) over 4 × 4 instances of Amazon EC2, requestor in each \
            region: repair pipelining over a random path saves 62.7…78.0 % of PPR's time, over the optimal path a further \
            7.3…45.4 %.",
    must_show: "savings in these ranges or better for every region, and every scheme within 10 % of its own bound.",
    run: |bench| regions::run(bench, &EXPERIMENT, &NORTH_AMERICA),
    compare: |results| regions::compare(results, &NORTH_AMERICA),
};

/// Table 1(a).
const NORTH_AMERICA: Continent = Continent {
    regions: ["California", "Canada", "Ohio", "Oregon"],
    mbit: [
        [501.3, 57.2, 44.1, 299.9],
        [55.3, 732.0, 63.3, 48.0],
        [46.3, 65.7, 332.5, 95.6],
        [297.8, 50.2, 93.6, 250.1],
    ],
    over_ppr: (0.373, 0.220),
    over_random: (0.927, 0.546),
};
