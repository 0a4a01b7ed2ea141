//! Repair between regions of unequal links (RP §6.2): what Figures 9(a) and 9(b) have in common. Each region's row of
//! Table 1 holds for each ordered pair of hosts.

use super::stand::{DIRECT, Ground, LEAST, PIPELINE, PPR, PPR_SLICED, Stand, StandSpec};
use super::{Bench, Experiment, Result, why};
use crate::cluster::RepairOrder;
use crate::report::{Axis, Comparison, Label, Ratio, Results};
use crate::testbed::LinkRate;
use flow::limits::SLICE_BYTES_OF_LANES;
use plan::Draw;
use serde_json::json;

/// Regions of a cluster.
pub const REGIONS: usize = 4;

/// Hosts of each region that hold blocks; another one is the requestor's.
const HOLDERS: usize = 4;
/// … in a quick run.
const FEW_HOLDERS: usize = 2;

const WEIGHTED: &str = "weighted";
const MULTI_PATH: &str = "multi-path";

/// Pipeline as the paper's "RP": its helpers and their order are random.
const RANDOM: &str = "pipeline, random path";

/// Links are as fast as the paper's times this. Multi-path repair fills all of them at once, which at the paper's rates takes
/// two processors whole.
const RATES: f64 = 0.5;

/// What Table 1 says of a continent, and the paper's savings, each as the least and the most over the requestor's regions,
/// as ratios of times.
pub struct Continent {
    /// Names of the regions.
    pub regions: [&'static str; REGIONS],
    /// Mb/s from a host in the row's region to one in the column's, as the paper has it.
    pub mbit: [[f64; REGIONS]; REGIONS],
    /// Repair pipelining over PPR.
    pub over_ppr: (f64, f64),
    /// The optimal path over a random one.
    pub over_random: (f64, f64),
}

impl Continent {
    /// Mb/s here. Hosts are dealt out to regions in turn.
    fn rate(&self, from: usize, to: usize) -> f64 {
        RATES * self.mbit[from % REGIONS][to % REGIONS]
    }

    /// What a host's port carries: its region's fastest link, for nobody measured more.
    fn port(&self, host: usize) -> f64 {
        (0..REGIONS).map(|other| self.rate(host, other).max(self.rate(other, host))).fold(0.0, f64::max)
    }

    /// From each host to each.
    fn matrix(&self, hosts: usize) -> Vec<Vec<f64>> {
        (0..hosts).map(|from| (0..hosts).map(|to| self.rate(from, to)).collect()).collect()
    }
}

/// Measures every scheme with the requestor in each region.
pub fn run(bench: &Bench<'_>, experiment: &Experiment, continent: &Continent) -> Result<Results> {
    let (holders, code) = bench.sized((HOLDERS, "rs-12+4"), (FEW_HOLDERS, "rs-6+2"));
    let hosts = (holders + 1) * REGIONS;
    let ground = Ground {
        spares: REGIONS,
        ports: (0..hosts).map(|host| LinkRate::mbit(continent.port(host))).collect(),
        matrix: Some(continent.matrix(hosts)),
        ..Ground::default()
    };
    let stripes = vec![(code, bench.sized(32 << 20, 1 << 20))];
    let spec = StandSpec { hosts, rate: LinkRate::UNLIMITED, stripes, ground };
    Stand::with(bench, &spec, |stand| {
        let axis = Axis::named("requestor in", continent.regions);
        let mut results = stand.results(experiment, axis, bench.rounds(5, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES_OF_LANES.into());
        results.ratios = Ratio::columns(&[PPR, PPR_SLICED, RANDOM, WEIGHTED], &[]);
        results.notes.push(
            "Table 1's rate of two regions limits each ordered pair of their hosts, and the fastest link of its region a \
             host's port, both times a half; the paper's blocks are of 64 MiB, twice ours in a full run. PPR and pipeline \
             get the same random helpers in the same random order, drawn anew for each sample; weighted and multi-path \
             choose among all from the table of links (`stripeline links set`), which holds the limits in force. A bound is the time that the \
             slowest or busiest link of the path that was taken needs. The direct send comes from the requestor's own region."
                .to_owned(),
        );
        stand.cluster.set_links(&table(stand, continent))?;
        measure(stand, &mut results)?;
        results.bounds_from(LEAST);
        Ok(results)
    })
}

/// What the coordinator is told: the limits in force, nodes in the order of their hosts.
fn table(stand: &Stand<'_>, continent: &Continent) -> String {
    let hosts = stand.testbed.hosts().len();
    let ports: Vec<f64> = (0..hosts).map(|host| continent.port(host)).collect();
    json!({ "bandwidth": continent.matrix(hosts), "up": ports, "down": ports }).to_string()
}

fn measure(stand: &mut Stand<'_>, results: &mut Results) -> Result<()> {
    stand.warm_up()?;
    let mut draw = Draw::seeded(0x0009);
    for round in 1..=results.setup.runs {
        for (x, &requestor) in (0..).map(f64::from).zip(&stand.spares) {
            stand.say_round(round, results, &format!(": requestor in {}", results.x.text(x)));
            let random = stand.stripes[0].shuffled_helpers(&mut draw);
            let turns = [
                (Label::subject(MULTI_PATH), MULTI_PATH, &[][..]),
                (Label::rival(WEIGHTED), WEIGHTED, &[][..]),
                (Label::rival(RANDOM), PIPELINE, &random[..]),
                (Label::rival(PPR), PPR, &random[..]),
                (Label::rival(PPR_SLICED), PPR_SLICED, &random[..]),
            ];
            for (label, scheme, helpers) in turns {
                let order = stand.stripes[0].order(scheme, SLICE_BYTES_OF_LANES);
                let order = RepairOrder { requestor: Some(requestor), helpers: helpers.to_vec(), ..order };
                results.add(label, x, stand.repair(&order)?.1);
            }
            let host = stand.cluster.host_of(requestor)?.index;
            // From the host before it in its region.
            results.add(Label::bare(DIRECT), x, stand.send_between(host - REGIONS, host)?);
        }
    }
    Ok(())
}

/// Judges savings where they are least and where they are most, and each scheme by its own bound.
pub fn compare(results: &Results, continent: &Continent) -> Vec<Comparison> {
    let regions = [0.0, 1.0, 2.0, 3.0];
    let pairs = [
        ([RANDOM, PPR], Some(continent.over_ppr)),
        ([RANDOM, PPR_SLICED], None),
        ([WEIGHTED, RANDOM], Some(continent.over_random)),
        ([MULTI_PATH, WEIGHTED], None),
    ];
    let mut comparisons = Vec::new();
    for (pair, paper) in pairs {
        comparisons.extend(why::savings(results, pair, &regions, "in", paper));
    }
    for x in regions {
        comparisons.extend(why::own_bounds(results, &[MULTI_PATH, WEIGHTED, RANDOM, PPR, PPR_SLICED], x));
    }
    comparisons
}
