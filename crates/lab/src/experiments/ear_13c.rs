//! EAR figure 13(c): encoding throughput over the number of stripes that are encoded at once.

use super::ear_13a::{load, network};
use super::encoding::{EAR, Load, Network, POLICIES, RR, gain, own};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-13c",
    title: "Encoding throughput over the stripes that are encoded at once",
    paper: "EAR, figure 13(c): six racks of three, each rack's egress limited to a tenth of a host's link, three replicas, 72 stripes; 6, \
            12 and 18 map tasks. From 12 to 18 tasks EAR gains 14.3 %, RR 3.5 %.",
    must_show: "with ear no block is downloaded across racks and none relocated, counted on links; both gain by more tasks, ear at \
                least as much as random; every encoding within a tenth of its own bound.",
    run,
    compare,
};

/// Stripes at once.
const TASKS: [u32; 3] = [6, 12, 18];

/// From the second to the third number of tasks, with the paper's gain.
const PAPER: [(&str, f64); 2] = [(EAR, 1.143), (RR, 1.035)];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let network = Network { racks: 6, hosts_per_rack: 3, ..network(bench) };
    network.with(bench, |site| {
        let axis = Axis::named("stripes at once", TASKS);
        let load = Load { rack_capacity: 3, ..load(bench, "rs-10+4") };
        let mut results = site.results(&EXPERIMENT, &load, axis, bench.rounds(3, 1));
        results.notes.push("As many stripes are encoded at once as is said.".to_owned());
        for (x, tasks) in (0..).map(f64::from).zip(TASKS) {
            site.take_turns(&Load { tasks, ..load }, x, &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(TASKS);
    let mut comparisons: Vec<Comparison> =
        at.flat_map(|(x, _)| [vec![gain(results, x, None, false)], own(results, x)].concat()).collect();
    let more = |name: &str| Some(results.median(name, 2.0)? / results.median(name, 1.0)?);
    comparisons.extend(PAPER.map(|(name, paper)| {
        Comparison::times(format!("{name}, 18 tasks over 12"), more(name)).paper(paper).at_least(1.0)
    }));
    let [ear, random] = POLICIES.map(|label| more(label.name));
    let beside = ear.zip(random).map(|(ear, random)| ear / random);
    comparisons
        .push(Comparison::times("what ear gains by 18 tasks, over what random does", beside).at_least(1.0));
    comparisons
}
