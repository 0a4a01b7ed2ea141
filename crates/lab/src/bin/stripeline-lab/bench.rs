//! `stripeline bench`: the papers' experiments, and ours.

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand};
use cli::amount::Rate;
use cli::output::{Output, table};
use cli::{VERSION, interrupt, programs};
use lab::experiments::{Bench, EXPERIMENTS, Experiment, TESTBED, chapters, find};
use lab::report::{Comparison, Results, Style, document, figure, judged};
use lab::{LinkRate, Testbed};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Full runs, which are committed.
const RESULTS: &str = "results";

/// Quick runs, which are not.
const RESULTS_LOCAL: &str = "results-local";

/// The document that is made of full runs, beside their folder.
const DOCUMENT: &str = "docs/results.md";

/// What to measure.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// Experiments, by their ids; 'all' for all
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Small blocks and few runs: shows that it works, measures nothing
    #[arg(long)]
    quick: bool,
    /// Samples of each figure [default: the experiment's]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Limit of each host's network, in each direction; none for no limit [default: the experiment's]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Where records and figures go [default: results, or results-local with --quick]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Where the daemons keep their blocks meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    blocks: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// List the experiments
    List,
    /// Write docs/results.md from the records of full runs
    Report {
        /// Where the records are
        #[arg(long, value_name = "DIR", default_value = RESULTS)]
        results: PathBuf,
        /// The document
        #[arg(long, value_name = "FILE", default_value = DOCUMENT)]
        document: PathBuf,
    },
}

pub fn run(out: Output, args: &BenchArgs) -> Result<()> {
    match &args.command {
        Some(BenchCommand::List) => list(out),
        Some(BenchCommand::Report { results, document }) => report(out, results, document),
        None => measure(out, args),
    }
}

fn list(out: Output) -> Result<()> {
    let described =
        |e: &Experiment| json!({"id": e.id, "title": e.title, "paper": e.paper, "must_show": e.must_show});
    out.answer(&EXPERIMENTS.iter().map(described).collect::<Vec<_>>(), || {
        let mut table = table(["ID", "WHAT"]);
        for experiment in EXPERIMENTS {
            table.add_row([experiment.id, experiment.title]);
        }
        table.to_string()
    })
}

fn report(out: Output, results: &Path, target: &Path) -> Result<()> {
    let chapters = chapters(results)?;
    let measured = chapters.iter().filter(|chapter| chapter.measured.is_some()).count();
    let folder = target.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let text = document(&chapters, &way(folder, results));
    std::fs::write(target, text).with_context(|| format!("cannot write {}", target.display()))?;
    out.answer(&json!({"document": target, "measured": measured, "experiments": chapters.len()}), || {
        format!("{}: {measured} of {} experiments", target.display(), chapters.len())
    })
}

/// The way from one folder to another as a link has it, both as given from the same place.
fn way(from: &Path, to: &Path) -> String {
    if to.is_absolute() {
        return to.display().to_string();
    }
    let up = from.components().map(|_| "..");
    up.map(str::to_owned).chain([to.display().to_string()]).collect::<Vec<_>>().join("/")
}

fn measure(out: Output, args: &BenchArgs) -> Result<()> {
    let chosen = chosen(&args.ids)?;
    let usual = if args.quick { RESULTS_LOCAL } else { RESULTS };
    let folder = args.results.clone().unwrap_or_else(|| PathBuf::from(usual));
    let parent = args.blocks.clone().unwrap_or_else(std::env::temp_dir);
    let blocks = tempfile::Builder::new().prefix("stripeline-bench-").tempdir_in(&parent);
    let blocks = blocks.with_context(|| format!("cannot make a folder in {}", parent.display()))?;
    clean_up_when_interrupted(blocks.path().to_owned())?;
    let say = |text: &str| eprintln!("  {text}");
    let bench = Bench {
        quick: args.quick,
        runs: args.runs,
        rate: args.rate.map(|Rate(bytes_per_s)| LinkRate { bits_per_s: bytes_per_s.saturating_mul(8) }),
        program: product()?,
        folder: Some(blocks.path().to_owned()),
        say: &say,
    };
    let mut failed = Vec::new();
    for experiment in chosen {
        eprintln!("▸ {}: {}", experiment.id, experiment.title);
        if let Err(error) = one(out, &bench, experiment, &folder) {
            eprintln!("  {}: {error:#}", experiment.id);
            failed.push(experiment.id);
        }
    }
    close(blocks);
    if failed.is_empty() { Ok(()) } else { bail!("nothing is reported of {}", failed.join(", ")) }
}

/// The program `stripeline`, built with this one: a record names one build for both.
fn product() -> Result<PathBuf> {
    let program = programs::find("stripeline")?;
    let asked = Command::new(&program).arg("--version").output();
    let asked = asked.with_context(|| format!("cannot start {}", program.display()))?;
    let (version, wanted) = (String::from_utf8_lossy(&asked.stdout), format!("stripeline {VERSION}"));
    ensure!(
        version.trim() == wanted,
        "{} is {}, not {wanted}: build both",
        program.display(),
        version.trim()
    );
    Ok(program)
}

fn chosen(ids: &[String]) -> Result<Vec<&'static Experiment>> {
    if ids.iter().any(|id| id == "all") {
        return Ok(EXPERIMENTS.iter().collect());
    }
    let one = |id: &String| {
        find(id).with_context(|| {
            let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
            format!("there is no experiment '{id}'; there are {}", known.join(", "))
        })
    };
    ids.iter().map(one).collect()
}

fn one(out: Output, bench: &Bench<'_>, experiment: &Experiment, folder: &Path) -> Result<()> {
    let results = experiment.measure(bench)?;
    let record = results.save(folder)?;
    let picture = Results::file(folder, experiment.id, bench.quick, "svg");
    std::fs::write(&picture, figure(&results)?)
        .with_context(|| format!("cannot write {}", picture.display()))?;
    let comparisons = (experiment.compare)(&results);
    if out.json {
        return out.event(&results);
    }
    out.say(text(&results, &comparisons))?;
    out.say(format!("{}\n{}\n", record.display(), picture.display()))
}

fn text(results: &Results, comparisons: &[Comparison]) -> String {
    let quick = if results.quick {
        "\nQUICK RUN: small blocks, few runs. It shows that this works and measures nothing.\n"
    } else {
        ""
    };
    let setup = results.setup.text();
    let notes: String = results.notes.iter().map(|note| format!("{note}\n")).collect();
    format!(
        "\n{}: {}\n{quick}{setup}\n{notes}\n{}\n\n{}\n",
        results.id,
        results.title,
        lab::report::table(results, Style::Plain),
        judged(comparisons, Style::Plain)
    )
}

fn close(blocks: TempDir) {
    let path = blocks.path().to_owned();
    if let Err(error) = blocks.close() {
        eprintln!("{} could not be removed: {error}", path.display());
    }
}

/// An interrupted run leaves no testbed and no blocks.
fn clean_up_when_interrupted(blocks: PathBuf) -> Result<()> {
    interrupt::clean_up_when_interrupted(move || {
        if let Err(error) = Testbed::remove(TESTBED) {
            eprintln!("the testbed is still up: {error}");
        }
        if let Err(error) = std::fs::remove_dir_all(&blocks) {
            eprintln!("{} could not be removed: {error}", blocks.display());
        }
    })
}
