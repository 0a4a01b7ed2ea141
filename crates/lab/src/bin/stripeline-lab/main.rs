//! `stripeline-lab`: experiments and testbeds. `stripeline bench` and `stripeline lab` start it.

mod bench;
mod lab;

use clap::{Parser, Subcommand};
use cli::bare;
use cli::output::Output;
use std::process::ExitCode;

/// As in `stripeline`: experiments read and write as clients do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Experiments with Stripeline's daemons, and networks of hosts on this machine to run them on.
#[derive(Parser, Debug)]
// Its commands are those of `stripeline` too, and help texts say so.
#[command(name = "stripeline-lab", bin_name = "stripeline", version = cli::VERSION)]
struct Cli {
    /// Answer in JSON: one document, or one per line for what comes as a stream
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Repeat the papers' experiments on a testbed of network namespaces, and ours
    Bench(bench::BenchArgs),
    /// Run a network of hosts on this machine, to measure on
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Be one process of a bare send or chain: what repairs are compared with
    #[command(hide = true)]
    Bare(bare::Hop),
}

fn main() -> ExitCode {
    let Cli { json, command } = Cli::parse();
    let out = Output { json };
    cli::ended(match command {
        Command::Bench(args) => bench::run(out, &args),
        Command::Lab(command) => lab::run(out, command),
        Command::Bare(hop) => hop.run().map_err(Into::into),
    })
}
