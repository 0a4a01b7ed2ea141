//! A matrix compiled for regions of bytes.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

use crate::kernel::Dot;
use crate::sums::{Sums, Term};
use crate::{Field, Fingerprint, GfError, Kernels, Matrix, kernels};

/// `outputs = matrix × inputs`, where inputs and outputs are regions of bytes: encoding, decoding, repair.
///
/// ```
/// let matrix = gf::Matrix::from_rows(gf::Field::Gf256, &[[1, 1], [1, 2]])?;
/// let product = gf::Product::new(&matrix)?;
/// let (mut p, mut q) = ([0; 3], [0; 3]);
/// product.apply(&[&[1, 2, 3], &[7, 7]], &mut [&mut p, &mut q]);
/// assert_eq!((p, q), ([6, 5, 3], [15, 12, 3]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Product {
    kernels: &'static Kernels,
    inputs: usize,
    outputs: usize,
    /// Row-major, outputs × inputs.
    coefficients: Vec<u8>,
    /// Of a matrix of zeros and ones.
    sums: Option<Sums>,
}

/// Bytes of each region that are worked on before going on to the next group of outputs: small enough that the
/// inputs of a wide code are still in the second-level cache when the next group reads them.
const TILE_BYTES: usize = 16 * 1024;

/// All tiles of a matrix of zeros and ones together: within the second-level cache of any server's processor.
const CACHE_BYTES: usize = 256 * 1024;

/// A tile of those is as long at least, lest the calls cost more than the sums.
const LEAST_TILE_BYTES: usize = 512;

impl Product {
    /// Compiles `matrix`, one row per output and one column per input.
    ///
    /// # Errors
    /// [`GfError::UnsupportedField`] when there are no kernels for its field; [`Matrix::over_gf256`] leads to one that has.
    pub fn new(matrix: &Matrix) -> Result<Self, GfError> {
        Self::with_kernels(matrix, kernels())
    }

    /// As [`Product::new`], at a level of the caller's choice.
    ///
    /// # Errors
    /// As there.
    pub fn with_kernels(matrix: &Matrix, kernels: &'static Kernels) -> Result<Self, GfError> {
        match matrix.field() {
            Field::Gf256 => {}
            other => return Err(GfError::UnsupportedField(other)),
        }
        let (outputs, inputs) = (matrix.rows(), matrix.cols());
        let coefficients = (0..outputs).flat_map(|row| matrix.row(row)).map(|&c| c as u8).collect();
        Ok(Self { kernels, inputs, outputs, coefficients, sums: Sums::of(matrix) })
    }

    /// Number of inputs, the matrix' columns.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of outputs, the matrix' rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// `outputs = matrix × inputs`, whatever the outputs held. All outputs have one length; an input may be shorter
    /// and counts as filled up with zeros.
    ///
    /// # Panics
    /// When there are not as many regions as the matrix has columns and rows, outputs differ in length, or an input
    /// is longer than the outputs.
    pub fn apply(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!((inputs.len(), outputs.len()), (self.inputs, self.outputs), "regions of a product");
        let bytes = outputs.first().map_or(0, |output| output.len());
        assert!(outputs.iter().all(|output| output.len() == bytes), "outputs of different length");
        assert!(
            outputs.is_empty() || inputs.iter().all(|input| input.len() <= bytes),
            "an input longer than the outputs"
        );
        if let Some(sums) = &self.sums {
            self.apply_sums(sums, inputs, outputs, bytes);
            return;
        }
        for from in (0..bytes).step_by(TILE_BYTES) {
            let tile = from..bytes.min(from + TILE_BYTES);
            for (group, outputs) in outputs.chunks_mut(Dot::MAX_OUTPUTS).enumerate() {
                self.tile(group * Dot::MAX_OUTPUTS, inputs, outputs, tile.clone());
            }
        }
    }

    /// [`apply`](Product::apply) on regions of at most [`CHUNK_BYTES`](crate::CHUNK_BYTES), with the fingerprint of every input. A
    /// chunk of each input of the usual codes fits the second-level cache: memory is read once.
    ///
    /// # Panics
    /// As [`apply`](Product::apply); when an input is longer than a chunk; when there are not as many fingerprints
    /// as inputs.
    pub fn apply_checked(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        input_fingerprints: &mut [Fingerprint],
    ) {
        assert_eq!(input_fingerprints.len(), self.inputs, "fingerprints of a product");
        for (fingerprint, input) in input_fingerprints.iter_mut().zip(inputs) {
            *fingerprint = self.kernels.fingerprint(input);
        }
        self.apply(inputs, outputs);
    }

    /// The same matrix on fingerprints, of chunks or of blocks: what the outputs' must be.
    ///
    /// # Panics
    /// When there are not as many of them as the matrix has columns and rows.
    pub fn combine(&self, inputs: &[Fingerprint], outputs: &mut [Fingerprint]) {
        assert_eq!((inputs.len(), outputs.len()), (self.inputs, self.outputs), "fingerprints of a product");
        outputs.fill(Fingerprint::ZERO);
        for (output, row) in outputs.iter_mut().zip(self.coefficients.chunks(self.inputs.max(1))) {
            let terms = row.iter().zip(inputs).filter(|(c, _)| **c != 0);
            terms.for_each(|(&c, input)| output.add_scaled(c, input));
        }
    }

    /// Regions that are read to make all outputs once: what a matrix of zeros and ones costs in XORs and copies; `None` for others.
    pub fn sum_loads(&self) -> Option<usize> {
        self.sums.as_ref().map(Sums::loads)
    }

    /// [`apply`](Product::apply) without a multiplication, tile by tile: all tiles of a step stay in the cache for the next ones.
    fn apply_sums(&self, sums: &Sums, inputs: &[&[u8]], outputs: &mut [&mut [u8]], bytes: usize) {
        let regions = inputs.len() + outputs.len() + sums.shared;
        let tile = (CACHE_BYTES / regions.max(1)).clamp(LEAST_TILE_BYTES, TILE_BYTES) / LEAST_TILE_BYTES
            * LEAST_TILE_BYTES;
        let mut tiles = vec![0; sums.shared * tile];
        let shared = tiles.as_mut_ptr();
        let outputs: Vec<*mut u8> = outputs.iter_mut().map(|output| output.as_mut_ptr()).collect();
        let mut at = 0;
        while at < bytes {
            // Up to the next end of an input, the same inputs take part.
            let next = (at / tile + 1) * tile;
            let ends = inputs.iter().map(|input| input.len()).filter(|&end| end > at);
            let end = ends.chain([next, bytes]).min().unwrap_or(bytes);
            for (to, terms) in &sums.steps {
                let place = |term: &Term| match *term {
                    // SAFETY: within the region, as `at` is below its length.
                    Term::Input(number) => {
                        (inputs[number].len() > at).then(|| unsafe { inputs[number].as_ptr().add(at) })
                    }
                    // SAFETY: each has a tile, of which `end - at` bytes are used.
                    Term::Shared(number) => Some(unsafe { shared.add(number * tile).cast_const() }),
                    // SAFETY: all outputs have `bytes` bytes.
                    Term::Output(number) => Some(unsafe { outputs[number].add(at).cast_const() }),
                };
                let destination = match *to {
                    // SAFETY: as above.
                    Term::Output(number) => unsafe { outputs[number].add(at) },
                    // SAFETY: as above.
                    Term::Shared(number) => unsafe { shared.add(number * tile) },
                    Term::Input(_) => continue,
                };
                // SAFETY: sources and destination have `end - at` bytes from here on; a step never reads what it makes.
                unsafe { self.step(terms.iter().filter_map(place), destination, end - at) }
            }
            at = end;
        }
    }

    /// # Safety
    /// Every pointer is good for so many bytes, and the destination is none of the sources.
    unsafe fn step(&self, mut sources: impl Iterator<Item = *const u8>, destination: *mut u8, bytes: usize) {
        let mut batch = [ptr::null(); Dot::MAX_INPUTS];
        let mut accumulate = false;
        loop {
            let count = batch.iter_mut().zip(sources.by_ref()).map(|(place, source)| *place = source).count();
            match (count, accumulate) {
                // SAFETY: the caller's promise.
                (0, false) => unsafe { ptr::write_bytes(destination, 0, bytes) },
                (0, true) => {}
                // SAFETY: the caller's promise; the count is from 1 to the most.
                _ => unsafe { self.kernels.sum(&batch[..count], destination, bytes, accumulate) },
            }
            if count < batch.len() {
                return;
            }
            accumulate = true;
        }
    }

    /// The bytes `tile` of a group of outputs, those of the rows from `row` on.
    fn tile(&self, row: usize, inputs: &[&[u8]], outputs: &mut [&mut [u8]], tile: Range<usize>) {
        let mut at = tile.start;
        while at < tile.end {
            // Up to the next end of an input, the same inputs take part.
            let ends = inputs.iter().map(|input| input.len()).filter(|&end| end > at);
            let end = ends.min().map_or(tile.end, |end| end.min(tile.end));
            self.segment(row, inputs, outputs, at..end);
            at = end;
        }
    }

    /// As `tile`, for bytes that each input either has or lacks as a whole.
    fn segment(&self, row: usize, inputs: &[&[u8]], outputs: &mut [&mut [u8]], segment: Range<usize>) {
        let mut batch = Batch::new(self.kernels, outputs, segment.clone());
        for (column, input) in inputs.iter().enumerate() {
            let Some(region) = input.get(segment.clone()) else { continue };
            batch.push(region, |output| self.coefficients[(row + output) * self.inputs + column]);
        }
        batch.finish();
    }
}

/// Inputs gathered until a routine takes no more of them.
struct Batch<'a> {
    kernels: &'static Kernels,
    outputs: [*mut u8; Dot::MAX_OUTPUTS],
    output_count: usize,
    inputs: [*const u8; Dot::MAX_INPUTS],
    input_count: usize,
    /// `[input][output]`.
    coefficients: [[u8; Dot::MAX_OUTPUTS]; Dot::MAX_INPUTS],
    bytes: usize,
    /// Whether the outputs hold a partial sum.
    accumulate: bool,
    /// The regions behind the pointers stay borrowed.
    regions: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Batch<'a> {
    fn new(kernels: &'static Kernels, outputs: &'a mut [&mut [u8]], segment: Range<usize>) -> Self {
        let output_count = outputs.len().min(Dot::MAX_OUTPUTS);
        let mut pointers = [ptr::null_mut(); Dot::MAX_OUTPUTS];
        for (pointer, output) in pointers.iter_mut().zip(outputs) {
            *pointer = output[segment.clone()].as_mut_ptr();
        }
        Self {
            kernels,
            outputs: pointers,
            output_count,
            inputs: [ptr::null(); Dot::MAX_INPUTS],
            input_count: 0,
            coefficients: [[0; Dot::MAX_OUTPUTS]; Dot::MAX_INPUTS],
            bytes: segment.len(),
            accumulate: false,
            regions: PhantomData,
        }
    }

    /// Adds a region as long as the segment, unless no output needs it.
    fn push(&mut self, region: &'a [u8], coefficient: impl Fn(usize) -> u8) {
        let mut column = [0; Dot::MAX_OUTPUTS];
        (0..self.output_count).for_each(|output| column[output] = coefficient(output));
        if column == [0; Dot::MAX_OUTPUTS] {
            return;
        }
        assert_eq!(region.len(), self.bytes);
        if self.input_count == Dot::MAX_INPUTS {
            self.flush();
        }
        self.inputs[self.input_count] = region.as_ptr();
        self.coefficients[self.input_count] = column;
        self.input_count += 1;
    }

    fn flush(&mut self) {
        let mut coefficients = [0; Dot::MAX_INPUTS * Dot::MAX_OUTPUTS];
        for (input, column) in self.coefficients[..self.input_count].iter().enumerate() {
            for (output, &c) in column[..self.output_count].iter().enumerate() {
                coefficients[output * self.input_count + input] = c;
            }
        }
        let dot = Dot {
            inputs: &self.inputs[..self.input_count],
            outputs: &self.outputs[..self.output_count],
            coefficients: &coefficients[..self.input_count * self.output_count],
            bytes: self.bytes,
            accumulate: self.accumulate,
        };
        // SAFETY: every pointer comes from a slice of `bytes` bytes, borrowed for 'a; outputs are exclusive borrows and
        // overlap nothing. Counts are within the bounds; `finish` and `push` see to it that they are not zero.
        unsafe { self.kernels.dot(&dot) }
        self.input_count = 0;
        self.accumulate = true;
    }

    fn finish(mut self) {
        if self.input_count > 0 {
            self.flush();
        } else if !self.accumulate {
            for &output in &self.outputs[..self.output_count] {
                // SAFETY: as in `flush`.
                unsafe { ptr::write_bytes(output, 0, self.bytes) }
            }
        }
    }
}
