//! How fast flows of repairs are built and proved, on one core: `cargo bench -p flow --bench build [-- --json]`.
//!
//! A block of RS(14,10) is made from ten of the others: which is lost, who helps, in which order and where is drawn anew
//! for each. A flow of each scheme, proved; rates are the median of several rounds, with the least and the greatest.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use codes::Code;
use flow::{Geometry, Helper, Member, RepairRequest, Scheme, Sink, Site, build};
use std::hint::black_box;
use std::time::Instant;

const CODE: &str = "rs-10+4";
const NODES: u64 = 1_000;
const REPAIRS: usize = 8 * 1_024;
const ROUNDS: usize = 11;
const BLOCK_BYTES: u64 = 64 << 20;

/// So many numbers without a pattern, the same in every run (xorshift64, Marsaglia 2003).
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The block that is lost, its helpers in the order of preference, who receives.
struct Repair {
    lost: Member,
    helpers: Vec<Helper>,
    requestor: Site,
}

fn repairs(code: &Code) -> Vec<Repair> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let repair = |_| {
        let mut members: Vec<u16> = (0..code.n() as u16).collect();
        for last in (1..members.len()).rev() {
            members.swap(last, noise.below(last as u64 + 1) as usize);
        }
        let first = noise.below(NODES - code.n() as u64) as u32;
        let site = |member: u16| Site(1 + first + u32::from(member));
        let helper = |&member: &u16| Helper {
            member: Member(member),
            site: site(member),
            stored_bytes: BLOCK_BYTES,
            cost: 1,
        };
        let helpers = members[1..].iter().map(helper).collect();
        Repair { lost: Member(members[0]), helpers, requestor: site(members[0]) }
    };
    (0..REPAIRS).map(repair).collect()
}

fn rate(code: &Code, scheme: Scheme, repairs: &[Repair]) -> f64 {
    let start = Instant::now();
    for repair in repairs {
        let request = RepairRequest {
            code,
            geometry: Geometry { block_bytes: BLOCK_BYTES, alpha: 1, slice_bytes: 32 << 10 },
            wanted: RepairRequest::whole_blocks(code, &[repair.lost]),
            helpers: &repair.helpers,
            absent: &[],
            empty: &[],
            requestor: repair.requestor,
            sink: Sink::Write,
        };
        black_box(build(scheme, &request).unwrap());
    }
    repairs.len() as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let code = Code::parse(CODE).unwrap();
    let repairs = repairs(&code);
    let schemes = [Scheme::Pipeline, Scheme::Conventional, Scheme::PprSliced];
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        schemes.iter().zip(&mut rates).for_each(|(&scheme, rates)| rates.push(rate(&code, scheme, &repairs)));
    }
    if !json {
        println!("{CODE}, {REPAIRS} repairs, {ROUNDS} rounds; flows built and proved/s\n");
        println!("{:<16}{:>12}{:>12}{:>12}", "", "median", "least", "greatest");
    }
    for (scheme, rates) in schemes.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let [median, least, greatest] = [rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]];
        match json {
            true => println!(
                "{{\"name\":\"{scheme}\",\"flows_per_s\":\
                 {{\"median\":{median:.0},\"least\":{least:.0},\"greatest\":{greatest:.0}}}}}"
            ),
            false => println!("{scheme:<16}{median:>12.0}{least:>12.0}{greatest:>12.0}"),
        }
    }
}
