//! The scheme of docs/first-change.md: built, proved and priced, though no operator can ask for it.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

mod two_arms;

use crate::build::{Helper, RepairRequest, Sink};
use crate::cost::predict;
use crate::graph::{Geometry, Member, Site};
use codes::Code;
use two_arms::{received, two_arms};

const BLOCK_BYTES: u64 = 1 << 20;
const SLICES: u64 = 32;

fn request<'a>(code: &'a Code, helpers: &'a [Helper], lost: &[Member]) -> RepairRequest<'a> {
    let alpha = code.alpha() as u16;
    let slice_bytes = (BLOCK_BYTES / SLICES) as u32 / u32::from(alpha);
    RepairRequest {
        code,
        geometry: Geometry { block_bytes: BLOCK_BYTES, alpha, slice_bytes },
        wanted: RepairRequest::whole_blocks(code, lost),
        helpers,
        absent: &[],
        empty: &[],
        requestor: Site(99),
        sink: Sink::Write,
    }
}

fn alive(code: &Code, lost: &[Member]) -> Vec<Helper> {
    let members = (0..code.n() as u16).map(Member).filter(|member| !lost.contains(member));
    members
        .map(|member| Helper { member, site: Site(member.0.into()), stored_bytes: BLOCK_BYTES, cost: 1 })
        .collect()
}

/// The builder hands out nothing that is not proved: that it answers says that its flow computes what was lost.
#[test]
fn two_arms_give_every_lost_block_of_every_kind_of_code() {
    for name in ["rs-1+1", "rs-2+2", "rs-10+4", "lrc-4+2+2", "rotated-6+3-r2", "rs16-4+2", "rep-3"] {
        let code = Code::parse(name).unwrap();
        for lost in (0..code.n() as u16).map(Member) {
            let helpers = alive(&code, &[lost]);
            two_arms(&request(&code, &helpers, &[lost])).unwrap();
        }
        let both = [Member(0), Member(1)];
        if code.tolerance() >= 2 {
            two_arms(&request(&code, &alive(&code, &both), &both)).unwrap();
        }
    }
}

#[test]
fn two_arms_cost_two_timeslots_and_half_the_hops() {
    let code = Code::parse("rs-10+4").unwrap();
    let helpers = alive(&code, &[Member(0)]);
    let flow = two_arms(&request(&code, &helpers, &[Member(0)])).unwrap();
    let cost = predict(&flow, |_| BLOCK_BYTES, None);
    let busiest = cost.bottleneck().unwrap();
    assert_eq!((busiest.site, busiest.bytes), (Site(99), 2 * BLOCK_BYTES));
    assert!((2.0..2.0 + 5.0 / SLICES as f64).contains(&cost.timeslots), "{}", cost.timeslots);
    assert_eq!(received(10), [0, 1, 1, 1, 1, 0, 1, 1, 1, 1]);
    assert_eq!(received(1), [0]);
}
