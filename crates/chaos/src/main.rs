//! `stripeline-chaos`: runs schedules by their seeds, or one that was written down, and sums up what they found.

use anyhow::{Context, Result, bail};
use chaos::coverage::Coverage;
use chaos::{Plan, Settings, Summary};
use clap::Parser;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Enough digits to tell builds apart.
const DIGEST_DIGITS: usize = 12;

/// Run seeded schedules of work and faults over a cluster of processes.
#[derive(Parser, Debug)]
#[command(name = "stripeline-chaos")]
struct Arguments {
    /// Seeds, such as 17, 1..1000 (both included), or 3,5,9..12
    #[arg(long, default_value = "1..30")]
    seeds: String,
    /// A plan to run instead, as --print wrote it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Write the plans as JSON, a line each, and run nothing
    #[arg(long)]
    print: bool,
    /// Write the plans for people, and run nothing
    #[arg(long)]
    show: bool,
    /// Run the same work without faults
    #[arg(long)]
    without_faults: bool,
    /// The program [default: the stripeline beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Schedules at once
    #[arg(long, default_value_t = 2)]
    parallel: usize,
    /// Seconds until a cluster that was put right must be quiet
    #[arg(long, default_value_t = 60)]
    quiet: u64,
    /// Switches to turn on again, or all
    #[arg(long, value_delimiter = ',')]
    on: Vec<String>,
    /// Keep the folders of schedules that found something
    #[arg(long)]
    keep: bool,
    /// Write what was covered, as JSON
    #[arg(long, value_name = "FILE")]
    coverage: Option<PathBuf>,
    /// Run nothing, and add up what runs covered, as --coverage wrote it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    add_up: Vec<PathBuf>,
    /// Tell what happens while it happens
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    if !arguments.add_up.is_empty() {
        return conclude(arguments, &add_up(&arguments.add_up)?);
    }
    let mut plans = match &arguments.plan {
        Some(file) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let plan: Plan = serde_json::from_str(&text).context("this is no plan of this version")?;
            vec![plan]
        }
        None => seeds(&arguments.seeds)?.into_iter().map(Plan::of).collect(),
    };
    if arguments.without_faults {
        plans = plans.into_iter().map(Plan::without_faults).collect();
    }
    if arguments.print || arguments.show {
        for plan in &plans {
            if arguments.show { println!("{plan}") } else { println!("{}", serde_json::to_string(plan)?) }
        }
        return Ok(true);
    }
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("stripeline"),
    };
    if !program.exists() {
        bail!("{} is not there; build it, or give --program", program.display());
    }
    chaos::sweep()?;
    let settings = Settings {
        quiet: Duration::from_secs(arguments.quiet),
        on: arguments.on.clone(),
        keep: arguments.keep,
        speaks: arguments.verbose,
        ..Settings::new(program)
    };
    conclude(arguments, &run_all(&plans, &settings, arguments.parallel)?)
}

fn conclude(arguments: &Arguments, summary: &Summary) -> Result<bool> {
    println!("{summary}");
    if let Some(file) = &arguments.coverage {
        summary.coverage().write(file)?;
    }
    Ok(summary.is_good())
}

fn add_up(files: &[PathBuf]) -> Result<Summary> {
    let mut sum = Coverage::new();
    for file in files {
        sum.add(&Coverage::read(file)?);
    }
    Ok(Summary::of(sum))
}

/// Returns the program's version and digest.
fn build(program: &Path) -> Result<String> {
    let said = Command::new(program).arg("--version").output();
    let said = said.with_context(|| format!("cannot run {}", program.display()))?;
    let bytes = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    // The digest tells builds of one version apart.
    let digest = blake3::hash(&bytes).to_hex();
    Ok(format!("{}, {}", String::from_utf8_lossy(&said.stdout).trim(), &digest[..DIGEST_DIGITS]))
}

fn run_all(plans: &[Plan], settings: &Settings, parallel: usize) -> Result<Summary> {
    let summary = Summary::of_build(build(&settings.program)?);
    let (next, summary) = (AtomicUsize::new(0), Mutex::new(summary));
    std::thread::scope(|scope| {
        for _ in 0..parallel.max(1) {
            scope.spawn(|| {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = chaos::run(plan, settings);
                    let Ok(mut summary) = summary.lock() else { return };
                    match result {
                        Ok(report) => {
                            println!("{report}");
                            summary.add(&report);
                        }
                        Err(error) => {
                            println!("seed {}: not run: {error:#}", plan.seed);
                            summary.add_broken(plan.seed, &error);
                        }
                    }
                }
            });
        }
    });
    Ok(summary.into_inner().unwrap_or_default())
}

fn seeds(text: &str) -> Result<Vec<u64>> {
    let mut seeds = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.parse::<u64>().with_context(|| format!("'{text}' is no seed"));
        let range: RangeInclusive<u64> = match part.split_once("..") {
            Some((first, last)) => number(first)?..=number(last.trim_start_matches('='))?,
            None => number(part)?..=number(part)?,
        };
        seeds.extend(range);
    }
    Ok(seeds)
}
