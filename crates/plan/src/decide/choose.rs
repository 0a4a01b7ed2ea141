//! By which scheme blocks are decoded: the one asked for, or (`auto`) the one that is predicted to take the least time,
//! with the reason.

use super::wanted::Symbols;
use super::{DecideError, Network, Price, Result, SliceLength};
use flow::limits::{MAX_SLICE_BYTES, MIN_SLICE_BYTES, slice_bytes_ok};
use flow::multi_block::repairs_several;
use flow::{Geometry, Helper, Member, MultiBlockRequest, Proved, RepairRequest, Scheme, Site, multi_block};

/// Degraded reads of up to this many bytes go by a star: there latency counts hops, not bytes, and helpers answer in one
/// exchange. Measured by `own-latency` at 1 Gb/s and k = 10, where a star of 32 KiB takes as long as a chain; faster links
/// only move that point up.
pub(super) const STAR_READ_BYTES: u64 = 16 << 10;

/// Several lanes are as many threads and connections at each helper: to be chosen they have to save so much more time.
const LANES_MUST_GAIN: f64 = 1.05;

/// A scheme, what it makes of a request, and why it was chosen, unless it was asked for.
pub(super) struct Choice {
    pub scheme: Scheme,
    pub flow: Proved,
    pub why: Option<String>,
}

/// How several blocks of a stripe are repaired (RP §4.4).
pub(super) enum ForSeveral {
    /// All in one pass.
    OnePass(Choice),
    /// Each alone, one after another.
    EachAlone {
        /// Why.
        why: String,
    },
}

/// Builds `request` by the scheme `asked` for, or by the best one, with its slices as they suit the scheme. Of a read only the
/// wanted bytes of its symbols count; of a repair all.
pub(super) fn choose(
    asked: Option<Scheme>,
    slices: SliceLength,
    request: &RepairRequest<'_>,
    read: Option<&Symbols>,
    network: Network<'_>,
) -> Result<Choice> {
    let (scheme, why) = match (asked, read) {
        (Some(scheme), _) => (scheme, None),
        (None, Some(symbols)) if symbols.total() <= STAR_READ_BYTES => {
            let why = format!("for {} B, where latency counts hops and not bytes", symbols.total());
            (Scheme::Conventional, Some(why))
        }
        (None, _) => {
            let price = |flow: &Proved| {
                let slices = read.map(|symbols| {
                    let (first, count) = symbols.slices(flow.geometry.slice_bytes);
                    first..first + count
                });
                network.price(flow, stored(request.helpers), slices)
            };
            // All with the same slices: shorter ones would make a single chain cheaper too.
            let even = SliceLength::exactly(request.geometry.slice_bytes);
            let (choice, _) = cheapest(|scheme| build(scheme, even, request, network), |_| true, price)?;
            let flow = build(choice.scheme, slices, request, network)?;
            return Ok(Choice { flow, ..choice });
        }
    };
    Ok(Choice { scheme, flow: build(scheme, slices, request, network)?, why })
}

/// The same for several blocks of a stripe, each at its requestor. On uneven links the requestors count as one node, or
/// each block is repaired alone, whichever is predicted to be faster (RP §4.4, remarks).
pub(super) fn choose_for_several(
    asked: Option<Scheme>,
    request: &MultiBlockRequest<'_>,
    network: Network<'_>,
) -> Result<ForSeveral> {
    let build = |scheme| build_for_several(scheme, request, network);
    let price = |flow: &Proved| network.price(flow, stored(request.helpers), None);
    let (choice, one_pass) = match asked {
        Some(scheme) => {
            let flow = build(scheme)?;
            let price = price(&flow);
            (Choice { scheme, flow, why: None }, price)
        }
        None => cheapest(build, repairs_several, price)?,
    };
    if !matches!(asked, None | Some(Scheme::Weighted)) || one_pass.time.is_none() {
        return Ok(ForSeveral::OnePass(choice));
    }
    let alone = each_alone(request, network);
    match (one_pass.seconds(), alone) {
        (Some(together), Some(alone)) if alone < together => {
            let why =
                format!("{alone:.3} s one after another, {together:.3} s in one pass by {}", choice.scheme);
            Ok(ForSeveral::EachAlone { why })
        }
        _ => Ok(ForSeveral::OnePass(choice)),
    }
}

/// Seconds in which the blocks are repaired one after another, each over the fastest path to its requestor; `None` if
/// there is no such path.
fn each_alone(request: &MultiBlockRequest<'_>, network: Network<'_>) -> Option<f64> {
    let alone = |&(member, requestor): &(Member, Site)| {
        let wanted = RepairRequest::whole_blocks(request.code, &[member]);
        let single = RepairRequest { wanted, requestor, ..request.at_one().ok()? };
        let slices = SliceLength::exactly(single.geometry.slice_bytes);
        let flow = build(Scheme::Weighted, slices, &single, network).ok()?;
        network.price(&flow, stored(request.helpers), None).seconds()
    };
    request.targets.iter().map(alone).sum()
}

/// The best of those schemes that stream. One that forwards whole blocks, or waits for acknowledgements, never does
/// better than the same graph without.
fn cheapest(
    build: impl Fn(Scheme) -> Result<Proved>,
    is_candidate: impl Fn(Scheme) -> bool,
    price: impl Fn(&Proved) -> Price,
) -> Result<(Choice, Price)> {
    let mut best: Option<(Price, Scheme, Proved)> = None;
    let mut priced = Vec::new();
    let mut failure = None;
    for scheme in Scheme::all().filter(|&s| is_candidate(s) && !s.whole_block() && !s.is_baseline()) {
        let flow = match build(scheme) {
            Ok(flow) => flow,
            // There may be no path over the links that are known, and yet a star.
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        let price = price(&flow);
        priced.push(format!("{scheme} {price}"));
        // Of equals the first, which is the simpler one.
        let handicap = if flow.lanes.len() > 1 { LANES_MUST_GAIN } else { 1.0 };
        if best.as_ref().is_none_or(|(least, ..)| price.times(handicap).beats(least)) {
            best = Some((price, scheme, flow));
        }
    }
    let none = || failure.unwrap_or_else(|| DecideError::Bug("no scheme streams".to_owned()));
    let (price, scheme, flow) = best.ok_or_else(none)?;
    let why = format!("{}: {}", price.measure(), priced.join(", "));
    Ok((Choice { scheme, flow, why: Some(why) }, price))
}

pub(super) fn stored(helpers: &[Helper]) -> impl Fn(Member) -> u64 {
    |member| helpers.iter().find(|h| h.member == member).map_or(0, |helper| helper.stored_bytes)
}

fn build(
    scheme: Scheme,
    slices: SliceLength,
    request: &RepairRequest<'_>,
    network: Network<'_>,
) -> Result<Proved> {
    let of_several = Geometry { slice_bytes: slices.of_several, ..request.geometry };
    let geometry = match scheme {
        Scheme::MultiPath => {
            let several = RepairRequest { geometry: of_several, ..request.clone() };
            if let Some(flow) = network.several(&several)? {
                return Ok(flow);
            }
            request.geometry
        }
        Scheme::Cyclic => of_several,
        scheme => sliced(scheme, request.geometry)?,
    };
    // Where nothing is known of the links, the best of several chains is any.
    let helpers = network.ordered(scheme, request, &[request.requestor])?;
    Ok(flow::build(scheme, &RepairRequest { geometry, helpers: &helpers, ..request.clone() })?)
}

/// A hop hands a slice on when it has a row for each of f blocks. Cut f times as fine, the pipeline fills as fast as for
/// one block.
fn build_for_several(
    scheme: Scheme,
    request: &MultiBlockRequest<'_>,
    network: Network<'_>,
) -> Result<Proved> {
    let mut geometry = sliced(scheme, request.geometry)?;
    if !scheme.whole_block() && scheme != Scheme::Conventional {
        geometry.slice_bytes = finer(geometry.slice_bytes, request.targets.len());
    }
    let sites: Vec<Site> = request.targets.iter().map(|&(_, site)| site).collect();
    let helpers = network.ordered(scheme, &request.at_one()?, &sites)?;
    Ok(multi_block::build(scheme, &MultiBlockRequest { geometry, helpers: &helpers, ..request.clone() })?)
}

/// The longest slice that is allowed and at most one `parts`-th as long.
pub(super) fn finer(slice_bytes: u32, parts: usize) -> u32 {
    let most = slice_bytes / u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
    let chunk = gf::CHUNK_BYTES as u32;
    let longest = if most >= chunk {
        most - most % chunk
    } else {
        most.checked_ilog2().map_or(MIN_SLICE_BYTES, |power| 1 << power)
    };
    let longest = longest.max(MIN_SLICE_BYTES);
    if slice_bytes_ok(longest) { longest } else { slice_bytes }
}

/// The geometry with slices as the scheme wants them: as asked for, or whole symbols.
fn sliced(scheme: Scheme, geometry: Geometry) -> Result<Geometry> {
    if !scheme.whole_block() {
        return Ok(geometry);
    }
    let whole = u32::try_from(geometry.whole_slice()).ok().filter(|&bytes| bytes <= MAX_SLICE_BYTES);
    let slice_bytes = whole.ok_or(DecideError::BlockTooLong {
        scheme: scheme.name(),
        bytes: geometry.symbol_bytes(),
        limit: MAX_SLICE_BYTES,
    })?;
    Ok(Geometry { slice_bytes, ..geometry })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::World;
    use codes::Code;
    use flow::{Helper, Sink, Site, Symbol};

    const MIB: u64 = 1 << 20;

    fn chosen(
        block_bytes: u64,
        asked: Option<Scheme>,
        read: Option<(u64, u64)>,
    ) -> Result<(Scheme, u64, String)> {
        let code = Code::parse("rs-10+4").unwrap();
        let helpers: Vec<Helper> = (1..14)
            .map(|m| Helper {
                member: Member(m),
                site: Site(u32::from(m)),
                stored_bytes: block_bytes,
                cost: 1,
            })
            .collect();
        let request = RepairRequest {
            code: &code,
            geometry: Geometry { block_bytes, alpha: 1, slice_bytes: 32 << 10 },
            wanted: vec![Symbol { member: Member(0), index: 0 }],
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(0),
            sink: Sink::Read,
        };
        let slices = SliceLength::by_default(32 << 10);
        let read = read.map(|(offset, length)| Symbols {
            of: vec![0],
            bytes: offset..offset + length,
            in_order: length,
        });
        let choice = choose(asked, slices, &request, read.as_ref(), Network::of(&World::default()))?;
        Ok((choice.scheme, choice.flow.geometry.slices(), choice.why.unwrap_or_default()))
    }

    #[test]
    fn auto_takes_the_fewest_timeslots_and_says_what_it_compared() {
        let (scheme, _, why) = chosen(64 * MIB, None, None).unwrap();
        assert_eq!(scheme, Scheme::Pipeline);
        for priced in ["conventional 10.000", "pipeline 1.004", "ppr-sliced 3.000"] {
            assert!(why.contains(priced), "{why}");
        }
        // A block of one slice cannot be pipelined: there the tree's four steps beat ten.
        assert_eq!(chosen(32 << 10, None, None).unwrap().0, Scheme::PprSliced);
        // Few bytes go by a star, however long the block.
        assert_eq!(chosen(64 * MIB, None, Some((MIB, 1))).unwrap().0, Scheme::Conventional);
        assert_eq!(chosen(64 * MIB, None, Some((MIB, MIB))).unwrap().0, Scheme::Pipeline);
    }

    #[test]
    fn schemes_of_whole_blocks_have_one_slice_and_a_bound() {
        for scheme in Scheme::all() {
            let (_, slices, why) = chosen(64 * MIB - 1, Some(scheme), None).unwrap();
            let expected = match scheme {
                Scheme::Cyclic => 4 * 2048,
                scheme if scheme.whole_block() => 1,
                // Without links that limit it multi-path is a chain.
                _ => 2048,
            };
            assert_eq!(slices, expected, "{scheme}");
            assert!(why.is_empty());
            let largest = chosen(u64::from(MAX_SLICE_BYTES) + 1, Some(scheme), None);
            match largest {
                Err(DecideError::BlockTooLong { .. }) => assert!(scheme.whole_block()),
                other => assert!(other.is_ok() && !scheme.whole_block()),
            }
        }
    }

    /// Helpers 2 … 13 of rs-10+4 at sites of the same numbers, requestors at sites 0 and 1, Mb/s by `rate`.
    fn several(asked: Option<Scheme>, rate: impl Fn(u32, u32) -> f64) -> ForSeveral {
        let code = Code::parse("rs-10+4").unwrap();
        let helpers: Vec<Helper> = (2..14)
            .map(|m| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: 64 * MIB, cost: 1 })
            .collect();
        let request = MultiBlockRequest {
            code: &code,
            geometry: Geometry { block_bytes: 64 * MIB, alpha: 1, slice_bytes: 32 << 10 },
            targets: &[(Member(0), Site(0)), (Member(1), Site(1))],
            helpers: &helpers,
            absent: &[],
            empty: &[],
        };
        choose_for_several(asked, &request, Network::of(&World::rated(14, rate))).unwrap()
    }

    #[test]
    fn on_uneven_links_auto_takes_the_least_time() {
        let code = Code::parse("rs-10+4").unwrap();
        let helpers: Vec<Helper> = (1..14)
            .map(|m| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: 64 * MIB, cost: 1 })
            .collect();
        let request = RepairRequest {
            code: &code,
            geometry: Geometry { block_bytes: 64 * MIB, alpha: 1, slice_bytes: 32 << 10 },
            wanted: vec![Symbol { member: Member(0), index: 0 }],
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(0),
            sink: Sink::Read,
        };
        let world = |rate: &dyn Fn(u32, u32) -> f64| World::rated(14, rate);
        // Two of the preferred helpers are slow.
        let slow =
            |from: u32, to: u32| if [from, to].iter().any(|n| *n == 2 || *n == 5) { 10.0 } else { 1000.0 };
        let slices = SliceLength::exactly(32 << 10);
        let choice = choose(None, slices, &request, None, Network::of(&world(&slow))).unwrap();
        assert_eq!(choice.scheme, Scheme::Weighted);
        let why = choice.why.unwrap();
        // 64 MiB at 10 Mb/s, over three more slow links to fill; and at 1 Gb/s.
        assert!(why.contains("pipeline 53.7") && why.contains("weighted 0.53"), "{why}");
        // Helpers cannot reach each other, so no chain can be fast: only the star, whose links share the requestor's side.
        let star = |from: u32, to: u32| if from == 0 || to == 0 { 100.0 } else { 0.1 };
        let slices = SliceLength::exactly(32 << 10);
        let choice = choose(None, slices, &request, None, Network::of(&world(&star))).unwrap();
        assert_eq!(choice.scheme, Scheme::Conventional, "{:?}", choice.why);
    }

    /// RP §4.4, remarks: the requestors as one node, or each block alone, whichever is faster.
    #[test]
    fn on_uneven_links_several_blocks_go_as_is_faster() {
        let even = |_, _| 100.0;
        for asked in [None, Some(Scheme::Weighted)] {
            match several(asked, even) {
                ForSeveral::OnePass(choice) => {
                    assert_eq!(choice.flow.geometry.slice_bytes, 16 << 10);
                    assert_eq!(choice.flow.sites().len(), 12);
                }
                ForSeveral::EachAlone { why } => panic!("{why}"),
            }
            // One helper reaches the first requestor quickly, another one the second: no last hop of both.
            let split = |from, to| match (from, to) {
                (7, 0) | (9, 1) => 100.0,
                (_, 0 | 1) => 10.0,
                _ => 100.0,
            };
            match several(asked, split) {
                ForSeveral::EachAlone { why } => assert!(why.contains("one after another"), "{why}"),
                ForSeveral::OnePass(choice) => panic!("{}", choice.scheme),
            }
        }
        // Who asks for a scheme that looks at no links gets it.
        assert!(matches!(several(Some(Scheme::Pipeline), even), ForSeveral::OnePass(_)));
    }

    #[test]
    fn slices_are_cut_to_lengths_that_nest_with_chunks() {
        let cut =
            [(32 << 10, 2), (32 << 10, 3), (96 << 10, 2), (96 << 10, 4), (1 << 20, 3), (2048, 4), (1024, 2)];
        let lengths = cut.map(|(slice, parts)| finer(slice, parts));
        assert_eq!(lengths, [16 << 10, 8 << 10, 32 << 10, 16 << 10, 320 << 10, 1024, 1024]);
    }
}
