//! By which scheme a block is decoded: the one asked for, or (`auto`) the one that is predicted to take the fewest
//! timeslots, with the reason.

use super::order::Network;
use super::slice_run;
use crate::config::STAR_READ_BYTES;
use crate::error::{CoordinatorError, Result};
use flow::{Geometry, Member, Proved, RepairRequest, Scheme};
use wire::limits::MAX_SLICE_BYTES;

/// A scheme, what it makes of a request, and why it was chosen, unless it was asked for.
pub(super) struct Choice {
    pub scheme: Scheme,
    pub flow: Proved,
    pub why: Option<String>,
}

/// Builds `request` by the scheme `asked` for, or by the best one. Of a read only `length` bytes from `offset` of the
/// wanted symbol count; of a repair all.
pub(super) fn choose(
    asked: Option<Scheme>,
    request: &RepairRequest<'_>,
    read: Option<(u64, u64)>,
    network: &Network,
) -> Result<Choice> {
    let (scheme, why) = match (asked, read) {
        (Some(scheme), _) => (scheme, None),
        (None, Some((_, length @ ..=STAR_READ_BYTES))) => {
            let why = format!("for {length} B, where latency counts hops and not bytes");
            (Scheme::Conventional, Some(why))
        }
        (None, _) => return fewest_timeslots(request, read, network),
    };
    Ok(Choice { scheme, flow: build(scheme, request, network)?, why })
}

/// The best of those schemes that stream. One that forwards whole blocks, or waits for acknowledgements, never does
/// better than the same graph without.
fn fewest_timeslots(
    request: &RepairRequest<'_>,
    read: Option<(u64, u64)>,
    network: &Network,
) -> Result<Choice> {
    let mut best: Option<(f64, Scheme, Proved)> = None;
    let mut priced = Vec::new();
    for scheme in Scheme::all().filter(|scheme| !scheme.whole_block() && !scheme.serial()) {
        let flow = build(scheme, request, network)?;
        let slices = read.map(|(offset, length)| {
            let (first, count) = slice_run(offset, length, flow.geometry.slice_bytes);
            first..first + count
        });
        let stored = |member: Member| {
            request.helpers.iter().find(|h| h.member == member).map_or(0, |helper| helper.stored_bytes)
        };
        let timeslots = flow::predict(&flow, stored, slices).timeslots;
        priced.push(format!("{scheme} {timeslots:.3}"));
        // Of equals the first, which is the simpler one.
        if best.as_ref().is_none_or(|(least, ..)| timeslots < *least) {
            best = Some((timeslots, scheme, flow));
        }
    }
    let (_, scheme, flow) = best.ok_or_else(|| CoordinatorError::Bug("no scheme streams".to_owned()))?;
    let why = format!("fewest timeslots on equal links: {}", priced.join(", "));
    Ok(Choice { scheme, flow, why: Some(why) })
}

fn build(scheme: Scheme, request: &RepairRequest<'_>, network: &Network) -> Result<Proved> {
    let geometry = sliced(scheme, request.geometry)?;
    let helpers = network.ordered(scheme, request)?;
    Ok(flow::build(scheme, &RepairRequest { geometry, helpers: &helpers, ..request.clone() })?)
}

/// The geometry with slices as the scheme wants them: as asked for, or whole symbols.
fn sliced(scheme: Scheme, geometry: Geometry) -> Result<Geometry> {
    if !scheme.whole_block() {
        return Ok(geometry);
    }
    let whole = u32::try_from(geometry.whole_slice()).ok().filter(|&bytes| bytes <= MAX_SLICE_BYTES);
    let slice_bytes = whole.ok_or(CoordinatorError::BlockTooLong {
        scheme: scheme.name(),
        bytes: geometry.symbol_bytes(),
        limit: MAX_SLICE_BYTES,
    })?;
    Ok(Geometry { slice_bytes, ..geometry })
}

#[cfg(test)]
mod tests {
    use super::*;
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
            .map(|m| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: block_bytes })
            .collect();
        let request = RepairRequest {
            code: &code,
            geometry: Geometry { block_bytes, alpha: 1, slice_bytes: 32 << 10 },
            wanted: vec![Symbol { member: Member(0), index: 0 }],
            helpers: &helpers,
            absent: &[],
            requestor: Site(0),
            sink: Sink::Read,
        };
        let choice = choose(asked, &request, read, &Network::default())?;
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
            assert_eq!(slices, if scheme.whole_block() { 1 } else { 2048 }, "{scheme}");
            assert!(why.is_empty());
            let largest = chosen(u64::from(MAX_SLICE_BYTES) + 1, Some(scheme), None);
            match largest {
                Err(CoordinatorError::BlockTooLong { .. }) => assert!(scheme.whole_block()),
                other => assert!(other.is_ok() && !scheme.whole_block()),
            }
        }
    }
}
