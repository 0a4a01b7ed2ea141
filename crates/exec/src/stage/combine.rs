//! A slice through a stage of any shape, chunk by chunk, so that what is combined stays in the cache.

use super::outputs::{Making, Place};
use super::{Stage, algebra};
use gf::{CHUNK_BYTES, Fingerprint, Matrix};
use model::{Cause, Fault, Peer};

/// Buffers that are used again for every slice.
pub(crate) struct Scratch {
    computed: Vec<Vec<u8>>,
    /// Bytes of the longest piece.
    piece_bytes: usize,
    seen: Vec<Fingerprint>,
    made: Vec<Fingerprint>,
    lengths: Vec<usize>,
    input_lengths: Vec<usize>,
}

/// Computed rows begin a few cache lines apart from each other, relative to a page, or they alias in the cache.
const SKEW_BYTES: usize = 192;

impl Scratch {
    pub(crate) fn new(inputs: usize, computed: usize, slice_bytes: u32) -> Scratch {
        let piece_bytes = CHUNK_BYTES.min(slice_bytes as usize);
        Scratch {
            computed: (0..computed).map(|i| vec![0; piece_bytes + SKEW_BYTES * (i % 16)]).collect(),
            piece_bytes,
            seen: vec![Fingerprint::ZERO; inputs],
            made: vec![Fingerprint::ZERO; computed],
            lengths: Vec::new(),
            input_lengths: Vec::new(),
        }
    }
}

/// Combines what [`super::Inputs::take`] brought, and hands it on.
pub(crate) fn slice(stage: &mut Stage, slice: u64) -> Result<(), Fault> {
    let Stage { inputs, outputs, scratch, product, matrix, id, injection, .. } = stage;
    let geometry = id.header.geometry;
    let room = geometry.slice_room(slice);

    scratch.input_lengths.clear();
    scratch.input_lengths.extend((0..inputs.rows.len()).map(|row| inputs.bytes(row, slice).len()));
    scratch.lengths.clear();
    scratch.lengths.extend(made_lengths(matrix, &scratch.input_lengths));
    outputs.begin(slice, &scratch.lengths);

    for piece in 0..room.div_ceil(CHUNK_BYTES) {
        let from = piece * CHUNK_BYTES;
        let piece_room = (room - from).min(CHUNK_BYTES);
        let part = |length: usize| from.min(length)..(from + piece_room).min(length);
        let regions: Vec<&[u8]> = (0..inputs.rows.len())
            .map(|row| &inputs.bytes(row, slice)[part(scratch.input_lengths[row])])
            .collect();

        let mut computed: Vec<&mut [u8]> = scratch
            .computed
            .iter_mut()
            .map(|buffer| {
                let skew = buffer.len() - scratch.piece_bytes;
                &mut buffer[skew..skew + piece_room]
            })
            .collect();
        if id.header.verify {
            let fingerprints = (&mut scratch.seen[..], &mut scratch.made[..]);
            let promised = |row| inputs.promised(row, slice, piece);
            algebra::combine(product, &regions, &mut computed, fingerprints, promised)
                .map_err(|row| inputs.mismatch(row, slice, piece))?;
        } else if !computed.is_empty() {
            product.apply(&regions, &mut computed);
        }
        if piece == 0
            && let Some(first) = computed.first_mut()
            && injection.arithmetic(slice)
        {
            first[0] ^= 1;
        }

        for row in 0..outputs.rows.len() {
            let length = scratch.lengths[row];
            let place = Place { slice, piece, length, room: piece_room };
            match outputs.rows[row].making {
                Making::Copy(input) => outputs.piece(row, place, regions[input], scratch.seen[input])?,
                Making::Computed(index) => {
                    let bytes = &computed[index][..part(length).len()];
                    let made = scratch.made[index];
                    // What goes on is checked by who gets it; what ends here is checked by nobody else.
                    if id.header.verify && outputs.ends(row) && gf::kernels().fingerprint(bytes) != made {
                        return Err(miscalculated(id.node, slice));
                    }
                    outputs.piece(row, place, bytes, made)?;
                }
            }
        }
    }
    let falsify = injection.wire(slice);
    outputs.end(slice, &scratch.lengths, falsify);
    Ok(())
}

/// Bytes that each row of `matrix` has, given those of its inputs: the rest is zero.
pub(super) fn made_lengths(matrix: &Matrix, inputs: &[usize]) -> impl Iterator<Item = usize> {
    (0..matrix.rows()).map(move |row| {
        let used = matrix.row(row).iter().zip(inputs).filter(|(c, _)| **c != 0);
        used.map(|(_, &length)| length).max().unwrap_or(0)
    })
}

pub(super) fn miscalculated(node: Peer, slice: u64) -> Fault {
    let what =
        format!("what was calculated of slice {slice} is not what the fingerprints of its inputs promise");
    Fault::new(Cause::CorruptSlice, what).suspecting(node, node).at(0, slice)
}
