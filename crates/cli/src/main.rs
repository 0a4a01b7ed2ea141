//! `stripeline`: the one program. Daemons, the operator's commands and the researcher's calculator.

mod amount;
mod codes;
mod output;

use clap::{Parser, Subcommand};
use output::{ClosedStdout, Output};
use std::process::ExitCode;

/// Erasure-coded storage that repairs as fast as it reads.
#[derive(Parser, Debug)]
#[command(name = "stripeline", version)]
struct Cli {
    /// Answer in JSON: one document, or one per line for what comes as a stream
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Compute with erasure codes, offline
    #[command(subcommand)]
    Codes(codes::CodesCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = Output { json: cli.json };
    let result = match cli.command {
        Command::Codes(command) => codes::run(command, out),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<ClosedStdout>() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
