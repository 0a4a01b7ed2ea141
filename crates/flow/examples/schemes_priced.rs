//! One lost block of RS(14,10), repaired on paper by every scheme: what each carries over the network, and how long.
//!
//! `cargo run -p flow --example schemes_priced`

use codes::Code;
use flow::{FlowError, Geometry, Helper, Member, RepairRequest, Scheme, Sink, Site, build, predict};

const BLOCK_BYTES: u64 = 64 << 20;

fn main() -> Result<(), FlowError> {
    let code = Code::parse("rs-10+4")?;
    // Block m is stored at site m; block 0 is lost, and site 99 writes it again.
    let alive = (1..14).map(|m| Helper {
        member: Member(m),
        site: Site(m.into()),
        stored_bytes: BLOCK_BYTES,
        cost: 1,
    });
    let helpers: Vec<Helper> = alive.collect();
    println!("{:13} {:>9} {:>12} {:>12}", "scheme", "timeslots", "network MiB", "busiest MiB");
    for scheme in Scheme::all() {
        let geometry = Geometry { block_bytes: BLOCK_BYTES, alpha: 1, slice_bytes: 32 << 10 };
        let whole = Geometry { slice_bytes: BLOCK_BYTES as u32, ..geometry };
        let request = RepairRequest {
            code: &code,
            geometry: if scheme.whole_block() { whole } else { geometry },
            wanted: RepairRequest::whole_blocks(&code, &[Member(0)]),
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(99),
            sink: Sink::Write,
        };
        // `build` proves the flow; what does not compute block 0 is an error here.
        let flow = build(scheme, &request)?;
        let cost = predict(&flow, |_| BLOCK_BYTES, None);
        let busiest = cost.bottleneck().map_or(0, |side| side.bytes >> 20);
        println!("{:13} {:>9.3} {:>12} {busiest:>12}", scheme, cost.timeslots, cost.network_bytes() >> 20);
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), FlowError> {
    main()
}
