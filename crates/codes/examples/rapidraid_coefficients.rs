//! Searches the coefficients of `rapidraid-K+M` for all shapes of some lengths, and prints what
//! `crates/codes/src/rapidraid/coefficients.rs` keeps of them. Each run prints the same.
//!
//! `cargo run --release -p codes --example rapidraid_coefficients -- 2..16 [TRIES [SEED]]`

use codes::rapidraid::search;

/// Chains tried for each shape unless the command line says how many.
const TRIES: u64 = 40_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let lengths = arguments.next().unwrap_or_else(|| "2..8".to_owned());
    let (from, to) = lengths.split_once("..").ok_or("lengths are given as FROM..TO, both included")?;
    let tries = arguments.next().map_or(Ok(TRIES), |tries| tries.parse())?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    for n in from.parse()?..=to.parse::<usize>()? {
        for k in n.div_ceil(2)..n {
            let found = search(k, n - k, seed, tries)?;
            let (changes, accidental, tried) = (found.chain.changes(), found.accidental, found.tried);
            println!("    ({k}, {}, &{changes:?}), // {accidental} accidental, {tried} tried", n - k);
        }
    }
    Ok(())
}
