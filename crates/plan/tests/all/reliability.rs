//! What layouts are worth, against what can be said by hand.

#![allow(clippy::unwrap_used)] // a test may

use codes::Code;
use codes::reliability::{Layout, Rates, mttdl_hours};
use flow::Scheme;
use plan::reliability::{Hardware, Worth, worth};

const HARDWARE: Hardware = Hardware {
    racks: 20,
    nodes_per_rack: 20,
    node_bytes: 1e12,
    node_rate: 1e12,
    rack_rate: 1e12,
    node_hours: 4.0 * 8_766.0,
    rack_hours: 100.0 * 8_766.0,
    lost_with_rack: 0.01,
};

fn of(code: &str, per_rack: usize, scheme: Scheme) -> Worth {
    let code = Code::parse(code).unwrap();
    worth((&code, &code.survival().unwrap()), per_rack, scheme, &HARDWARE).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

#[test]
fn with_a_block_in_each_rack_every_byte_crosses() {
    for scheme in [Scheme::Conventional, Scheme::Pipeline, Scheme::PprSliced] {
        let flat = of("rs-6+3", 1, scheme);
        assert!(close(flat.moved, 6.0) && close(flat.cross_rack, 6.0), "{scheme}: {flat:?}");
        // 6 TB over the 20 links of racks, 1 TB an hour each.
        assert!(close(flat.repair_hours, 6.0 / 20.0), "{scheme}: {flat:?}");
    }
    // A local group: its other two data blocks and the parity.
    assert!(close(of("rep-3", 1, Scheme::Pipeline).moved, 1.0));
}

/// RP §4.2 and figure 5: over three racks of three, (9,6), a chain that takes a rack at a time crosses twice; the conventional repair
/// fetches every block of the other racks.
#[test]
fn a_chain_crosses_each_rack_once() {
    let chain = of("rs-6+3", 3, Scheme::Pipeline);
    assert!(close(chain.cross_rack, 2.0) && close(chain.moved, 6.0), "{chain:?}");
    let star = of("rs-6+3", 3, Scheme::Conventional);
    assert!(close(star.cross_rack, 4.0) && close(star.moved, 6.0), "{star:?}");
}

#[test]
fn the_mean_time_is_that_of_the_chain_with_its_repair_rate() {
    let here = of("lrc-12+2+2", 2, Scheme::Pipeline);
    let code = Code::parse("lrc-12+2+2").unwrap();
    let rates = Rates {
        node: 1.0 / HARDWARE.node_hours,
        rack: 1.0 / HARDWARE.rack_hours,
        lost_with_rack: HARDWARE.lost_with_rack,
        repair: 1.0 / here.repair_hours,
    };
    let by_hand = mttdl_hours(&code.survival().unwrap(), &Layout::of(16, 2), &rates).unwrap();
    assert!(close(here.mttdl_hours, by_hand));
    // Its 14 blocks in groups read 6 others, its two global parities 12.
    assert!(close(here.moved, (14.0 * 6.0 + 2.0 * 12.0) / 16.0), "{here:?}");
}

#[test]
fn codes_of_many_symbols_and_of_virtual_data_have_their_worth() {
    for code in ["rotated-6+3-r3", "rs16-4+2", "random-a2-4+2-s1", "rapidraid-8+4", "rapidraid16-4+2"] {
        let here = of(code, 2, Scheme::Pipeline);
        assert!(
            here.moved > 0.0 && here.mttdl_hours.is_finite() && here.cross_rack < here.moved,
            "{code}: {here:?}"
        );
    }
}

#[test]
fn a_layout_needs_its_racks() {
    let code = Code::parse("rs-20+4").unwrap();
    let judged = |per_rack| worth((&code, &code.survival().unwrap()), per_rack, Scheme::Pipeline, &HARDWARE);
    assert!(judged(1).unwrap_err().to_string().contains("do not fit into 20 racks of 20 nodes"));
    assert!(judged(2).is_ok());
    assert!(judged(24).is_err());
}
