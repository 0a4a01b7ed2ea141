//! Makes a parity of three regions and checks it without computing it again: fingerprints obey the same equation.
//!
//! `cargo run -p gf --example checked_parity`

use gf::{Field, Fingerprint, Matrix, Product, kernels};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let data: [Vec<u8>; 3] = std::array::from_fn(|i| (0..4096).map(|at| (at * (i + 7) / 3) as u8).collect());
    // One output: d0 + 2·d1 + 4·d2.
    let product = Product::new(&Matrix::from_rows(Field::Gf256, &[[1, 2, 4]])?)?;
    let mut parity = vec![0; 4096];
    product.apply(&data.each_ref().map(|region| region.as_slice()), &mut [&mut parity]);

    let mut expected = [Fingerprint::ZERO];
    product.combine(&data.each_ref().map(|region| kernels().fingerprint(region)), &mut expected);
    let holds = |parity: &[u8]| kernels().fingerprint(parity) == expected[0];
    println!("one parity of {} regions, {} kernels", product.inputs(), kernels().level());
    println!("the parity has the fingerprint that the equation implies: {}", holds(&parity));
    parity[1234] ^= 1;
    println!("after one flipped bit: {}", holds(&parity));
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
