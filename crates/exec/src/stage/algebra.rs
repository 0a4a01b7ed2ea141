//! What stages calculate, on bytes alone: no stream, no disk, no plan. Whatever is verified is checked in the same pass in
//! which it is multiplied, and fingerprints go the way of the bytes.

use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, Fingerprint, HopFingerprints, Product, kernels};

/// Bytes that are not what their fingerprint promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// The stage's own, in this chunk of the slice.
    Local(usize),
    /// Those that arrived.
    Received(usize),
}

/// A slice of a hop: `payload += coefficient · local`, and `fingerprints`, which those of `payload` must be, become those
/// of the sum. `recorded` has those of `local`, where they are still to be checked; `local` is not the longer one.
pub(crate) fn hop(
    coefficient: u8,
    local: &[u8],
    payload: &mut [u8],
    fingerprints: &mut [u8],
    recorded: impl Fn(usize) -> Option<Fingerprint>,
) -> Result<(), Wrong> {
    let chunks = payload.chunks_mut(CHUNK_BYTES).zip(fingerprints.chunks_exact_mut(FINGERPRINT_BYTES));
    for (piece, (part, promised)) in chunks.enumerate() {
        let from = (piece * CHUNK_BYTES).min(local.len());
        let local = &local[from..local.len().min(from + part.len())];
        let seen = hop_part(coefficient, local, part, recorded(piece)).ok_or(Wrong::Local(piece))?;
        let mut made = seen.received;
        if made.as_bytes()[..] != *promised {
            return Err(Wrong::Received(piece));
        }
        made.add_scaled(coefficient, &seen.local);
        promised.copy_from_slice(made.as_bytes());
    }
    Ok(())
}

/// At most a chunk of a hop. What arrived is for the caller to check; `None` if `local` is not as `recorded`.
pub(crate) fn hop_part(
    coefficient: u8,
    local: &[u8],
    part: &mut [u8],
    recorded: Option<Fingerprint>,
) -> Option<HopFingerprints> {
    let seen = kernels().hop(coefficient, local, part);
    recorded.is_none_or(|recorded| recorded == seen.local).then_some(seen)
}

/// The fingerprint of a whole shared frame, and of each of its slices, from the last to the first.
pub(crate) fn frame_end(payload: &[u8], slice_bytes: usize, pieces: &mut Vec<Fingerprint>) -> Fingerprint {
    let mut seen = Fingerprint::ZERO;
    pieces.clear();
    for piece in payload.chunks(slice_bytes) {
        let piece = kernels().fingerprint(piece);
        seen.append(&piece);
        pieces.push(piece);
    }
    pieces.reverse();
    seen
}

/// At most a chunk of any shape: `computed = product × regions`, and `made` are the fingerprints that it must have. `seen`
/// gets those of `regions`. An error names the region that is not as `promised`.
pub(crate) fn combine(
    product: &Product,
    regions: &[&[u8]],
    computed: &mut [&mut [u8]],
    (seen, made): (&mut [Fingerprint], &mut [Fingerprint]),
    promised: impl Fn(usize) -> Option<Fingerprint>,
) -> Result<(), usize> {
    if computed.is_empty() {
        seen.iter_mut().zip(regions).for_each(|(seen, region)| *seen = kernels().fingerprint(region));
    } else {
        product.apply_checked(regions, computed, seen);
    }
    let wrong = |&row: &usize| promised(row).is_some_and(|promised| promised != seen[row]);
    if let Some(row) = (0..regions.len()).find(wrong) {
        return Err(row);
    }
    product.combine(seen, made);
    Ok(())
}

/// One input's share of a sum: `sum += coefficient · region`; the sum's fingerprint follows that of `region`.
pub(crate) fn add(
    coefficient: u8,
    region: &[u8],
    seen: &Fingerprint,
    sum: &mut [u8],
    made: &mut Fingerprint,
) {
    kernels().mul_add(coefficient, region, &mut sum[..region.len()]);
    made.add_scaled(coefficient, seen);
}

/// As [`add`] for any number of chunks, whose sums' fingerprints are known already: `promised` are the region's own. An
/// error names the chunk that differs.
pub(crate) fn add_known(
    coefficient: u8,
    region: &[u8],
    promised: &[Fingerprint],
    sum: &mut [u8],
) -> Result<(), usize> {
    let chunks = region.chunks(CHUNK_BYTES).zip(sum.chunks_mut(CHUNK_BYTES)).zip(promised);
    for (index, ((chunk, sum), promised)) in chunks.enumerate() {
        if *promised != kernels().fingerprint(chunk) {
            return Err(index);
        }
        kernels().mul_add(coefficient, chunk, &mut sum[..chunk.len()]);
    }
    Ok(())
}
