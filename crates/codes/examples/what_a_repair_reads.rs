//! What codes cost and survive, and what the repair of one block reads: the calculator behind `stripeline codes`.
//!
//! `cargo run -p codes --example what_a_repair_reads`

use codes::{Code, CodeError};

fn main() -> Result<(), CodeError> {
    println!("{:28} {:>6} {:>9} {:>12}", "code", "stored", "survives", "repair reads");
    for name in ["rep-3", "rs-10+4", "lrc-12+2+2", "rotated-12+4-r4"] {
        let code = Code::parse(name)?;
        let report = code.describe()?;
        let blocks = report.repairs[0].symbols_read as f64 / report.alpha as f64;
        let (stored, survives) = (report.storage_overhead, report.tolerance);
        println!("{:28} {stored:>5.2}× {survives:>9} {blocks:>5} blocks", code.to_string());
    }
    // Blocks 0 and 1 of rs-2+2 are lost: each is a combination of the other two.
    let equation = Code::parse("rs-2+2")?.decode(&[0, 1], &[2, 3])?;
    println!("rs-2+2, from blocks {:?}:", equation.blocks());
    for (row, symbol) in equation.wanted.iter().enumerate() {
        println!("  block {} has the coefficients {:?}", symbol.block, equation.matrix.row(row));
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), CodeError> {
    main()
}
