//! A stripe of RS(14,10) and one of an LRC, encoded on paper by every scheme: what each carries over the network, over its
//! busiest side of an interface and over its busiest link, and how long that takes.
//!
//! `cargo run -p flow --example encodings_priced`

use codes::Code;
use flow::{EncodeRequest, EncodeScheme, FlowError, Geometry, Helper, Member, Site, encode, limits, predict};

const BLOCK_BYTES: u64 = 64 << 20;

fn main() -> Result<(), FlowError> {
    println!(
        "{:13} {:15} {:>9} {:>12} {:>12} {:>12}",
        "code", "scheme", "timeslots", "network MiB", "busiest MiB", "link MiB"
    );
    for name in ["rs-10+4", "lrc-10+2+2"] {
        let code = Code::parse(name)?;
        // Block m is stored at site m; site 99 has none.
        let (k, n) = (code.k() as u16, code.n() as u16);
        let helper =
            |m: u16| Helper { member: Member(m), site: Site(m.into()), stored_bytes: BLOCK_BYTES, cost: 1 };
        let data: Vec<Helper> = (0..k).map(helper).collect();
        let targets: Vec<(Member, Site)> = (k..n).map(|m| (Member(m), Site(m.into()))).collect();
        for scheme in EncodeScheme::of(&code) {
            let slice_bytes = match scheme.has_lanes() {
                true => limits::SLICE_BYTES_OF_LANES,
                false => limits::DEFAULT_SLICE_BYTES,
            };
            let request = EncodeRequest {
                code: &code,
                geometry: Geometry { block_bytes: BLOCK_BYTES, alpha: code.alpha() as u16, slice_bytes },
                data: &data,
                absent: &[],
                empty: &[],
                archiver: Site(99),
                targets: &targets,
            };
            // `build` proves the flow; what does not compute every parity is an error here.
            let flow = encode::build(scheme, &request)?;
            let cost = predict(&flow, |_| BLOCK_BYTES, None);
            let busiest = cost.bottleneck().map_or(0, |side| side.bytes >> 20);
            let link = cost.links.values().max().map_or(0, |bytes| bytes >> 20);
            println!(
                "{name:13} {scheme:15} {:>9.3} {:>12} {busiest:>12} {link:>12}",
                cost.timeslots,
                cost.network_bytes() >> 20
            );
        }
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), FlowError> {
    main()
}
