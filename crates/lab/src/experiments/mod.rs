//! The papers' evidence, and ours: an experiment a file, run by `stripeline bench ID`.
//!
//! ```text
//!   Bench ──▶ Experiment::run ──▶ Results ──▶ Experiment::compare ──▶ Comparison, …
//!               │
//!               └─ Stand: testbed, cluster, stripes; repairs and bare sends taken in turn
//! ```
//!
//! Adding one: a file with its `EXPERIMENT`, its module, and its name in the list below.

mod bounds;
mod conversion;
mod degraded;
mod ear_10a;
mod ear_10b;
mod ear_11;
mod ear_12;
mod ear_13a;
mod ear_13b;
mod ear_13c;
mod ear_18;
mod ear_19;
mod ear_3;
mod encoding;
mod hdfs_ear;
mod on_paper;
mod own_archival;
mod own_budgets;
mod own_core;
mod own_decommission;
mod own_latency;
mod own_multipath;
mod own_straggler;
mod own_symbols;
mod ppr;
mod ppr_7a;
mod ppr_7b;
mod ppr_7c;
mod ppr_7d;
mod ppr_7e;
mod ppr_7f;
mod ppr_8;
mod ppr_9;
mod ppr_rm;
mod regions;
mod rp_10b;
mod rp_11a;
mod rp_11b;
mod rp_8a;
mod rp_8b;
mod rp_8c;
mod rp_8d;
mod rp_8e;
mod rp_8f;
mod rp_8g;
mod rp_8h;
mod rp_8i;
mod rp_9a;
mod rp_9b;
mod rp_alg2;
mod rr_3;
mod rr_4a;
mod rr_4b;
mod rr_5a;
mod rr_5b;
mod rr_t1;
mod rr_t2;
mod stand;
mod symbols;
mod whole_node;
mod why;
mod xor_1;
mod xor_2;
mod xor_3;
mod xor_5;
mod xor_6;
mod xor_7;
mod xor_nodes;
mod xor_r6;

pub use bounds::{timeslots, timeslots_of_several};

use crate::error::Result;
use crate::report::{Axis, Chapter, Comparison, Measure, Results, Setup};
use crate::testbed::LinkRate;
use cli::processor::ProcessorShare;
use std::path::{Path, PathBuf};

/// One figure or table.
pub struct Experiment {
    /// As in `results/<id>.json`.
    pub id: &'static str,
    /// What is compared over what.
    pub title: &'static str,
    /// The paper's figure and numbers; for ours, why it is asked.
    pub paper: &'static str,
    /// What ours must show.
    pub must_show: &'static str,
    /// Measures.
    pub run: fn(&Bench<'_>) -> Result<Results>,
    /// Judges what was measured.
    pub compare: fn(&Results) -> Vec<Comparison>,
}

/// Links of experiments with chains of twelve helpers, unless another rate is asked for. At 1 Gbit/s such a chain keeps two
/// processors 70 to 80 % busy, and its time says as much about them as about the network (docs/performance.md); in timeslots
/// the rate has no part.
const LONG_CHAINS_MBIT: f64 = 500.0;

/// A host that takes more than this part of the processors away shows in the figures.
const STOLEN: f64 = 0.01;

impl Experiment {
    /// Measures, and notes what the machine's host took away meanwhile.
    ///
    /// # Errors
    /// Whatever it runs into; nothing is reported then.
    pub fn measure(&self, bench: &Bench<'_>) -> Result<Results> {
        let processors = ProcessorShare::start()?;
        let mut results = (self.run)(bench)?;
        let stolen = processors.stolen_so_far()?;
        if stolen > STOLEN {
            results.notes.push(format!(
                "This is a virtual machine whose host gave {:.1} % of its processors' time to others meanwhile.",
                stolen * 100.0
            ));
        }
        Ok(results)
    }
}

macro_rules! experiments {
    ($($file:ident)*) => { &[$($file::EXPERIMENT),*] };
}

/// All of them, in the order of the documentation.
pub const EXPERIMENTS: &[Experiment] = experiments! {
    rp_8a rp_8b rp_8c rp_8d rp_8e rp_8f rp_8g rp_8h rp_8i rp_9a rp_9b rp_alg2 rp_10b rp_11a rp_11b
    ppr_7a ppr_7b ppr_7c ppr_7d ppr_7e ppr_7f ppr_8 ppr_rm ppr_9
    ear_3 ear_10a ear_10b ear_11 ear_12 ear_13a ear_13b ear_13c ear_18 ear_19 hdfs_ear
    xor_1 xor_2 xor_3 xor_r6 xor_5 xor_6 xor_7
    rr_3 rr_t1 rr_t2 rr_4a rr_4b rr_5a rr_5b
    own_latency own_straggler own_core own_multipath own_archival own_decommission own_symbols own_budgets
};

/// Name of the testbed that experiments make, and remove.
pub const TESTBED: &str = "bench";

/// How experiments are run.
pub struct Bench<'a> {
    /// Small blocks and few runs: to see that it works.
    pub quick: bool,
    /// Samples of each figure, where the experiment does not need more.
    pub runs: Option<usize>,
    /// Limit of each host's port; `None`: the experiment's own.
    pub rate: Option<LinkRate>,
    /// The program `stripeline`, which the daemons are.
    pub program: PathBuf,
    /// Where daemons keep their blocks; `None`: in memory.
    pub folder: Option<PathBuf>,
    /// Told what is going on.
    pub say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// `full`, or `quick` in a quick run.
    pub fn sized<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The limit that is asked for, or so many Mb/s.
    pub fn rate_or(&self, mbit: f64) -> LinkRate {
        self.rate.unwrap_or(LinkRate::mbit(mbit))
    }

    /// An empty record of an experiment.
    pub fn record(&self, experiment: &Experiment, setup: Setup, x: Axis, y: Measure) -> Results {
        Results::new(experiment.id, experiment.title, self.quick, setup, x, y)
    }

    /// How many samples of each figure.
    pub fn rounds(&self, full: usize, quick: usize) -> usize {
        self.runs.unwrap_or(self.sized(full, quick)).max(1)
    }
}

/// An experiment by its id.
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id)
}

/// What the documentation says about each, from the full runs that are kept in `folder`.
///
/// # Errors
/// [`crate::error::LabError::BadResults`], [`crate::error::LabError::Io`].
pub fn chapters(folder: &Path) -> Result<Vec<Chapter>> {
    let chapter = |experiment: &Experiment| {
        let results = Results::load(&Results::file(folder, experiment.id, false, "json"))?;
        let measured = results.map(|results| {
            let comparisons = (experiment.compare)(&results);
            (results, comparisons)
        });
        let Experiment { id, title, paper, must_show, .. } = *experiment;
        Ok(Chapter { id, title, paper, must_show, measured })
    };
    EXPERIMENTS.iter().map(chapter).collect()
}
