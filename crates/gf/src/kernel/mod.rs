//! Region kernels: the same few functions at each SIMD level, and the one place that chooses between them.
//!
//! ```text
//!   Kernels (safe: lengths, ragged ends)          mod.rs, chunk.rs
//!      └─ Routines: one table per level           scalar.rs  ssse3.rs  avx2.rs  gfni.rs
//!            └─ loops over a `Vector`             vector.rs, dot.rs   (all but scalar)
//!                  └─ constants as tables         tables.rs
//! ```
//!
//! `scalar.rs` shares no loop with the others, so that each can be tested against it.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod chunk;
#[cfg(target_arch = "x86_64")]
mod dot;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod ssse3;
mod tables;
#[cfg(target_arch = "x86_64")]
mod vector;

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

pub use chunk::HopFingerprints;
pub(crate) use chunk::Residue;
pub(crate) use tables::{MUL, constant_mul};

use crate::GfError;

/// A set of instructions that kernels are written for, from the slowest to the fastest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Table look-ups, any processor: the twin that the others are tested against.
    Scalar,
    /// 16 bytes at a time, products by two look-ups of half bytes (`pshufb`).
    Ssse3,
    /// The same, 32 bytes at a time.
    Avx2,
    /// 64 bytes at a time, products by 8×8 bit matrices (`gf2p8affineqb`): AVX-512 F and BW with GFNI.
    Gfni512,
}

impl Level {
    const ALL: [Self; 4] = [Self::Scalar, Self::Ssse3, Self::Avx2, Self::Gfni512];

    /// The levels that this processor can run, slowest first; never empty.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|&level| Kernels::at(level).is_some()).collect()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Gfni512 => "gfni512",
        })
    }
}

impl FromStr for Level {
    type Err = GfError;

    fn from_str(text: &str) -> Result<Self, GfError> {
        let named = Self::ALL.into_iter().find(|level| level.to_string() == text);
        named.ok_or_else(|| GfError::UnknownLevel(text.to_owned()))
    }
}

/// A matrix product over regions: `outputs[g] (+)= Σ_i coefficients[g·inputs + i] · inputs[i]`.
pub(crate) struct Dot<'a> {
    pub inputs: &'a [*const u8],
    pub outputs: &'a [*mut u8],
    /// Row-major, outputs × inputs.
    pub coefficients: &'a [u8],
    /// Bytes of each region.
    pub bytes: usize,
    /// Add to what the outputs hold instead of overwriting it.
    pub accumulate: bool,
}

impl Dot<'_> {
    /// Most inputs that a routine takes at once: wide enough for the usual codes in one pass, few enough that the
    /// routines, one for each count, stay small.
    pub const MAX_INPUTS: usize = 16;
    /// Most outputs at once: with two vectors of each, all accumulators stay in registers at every level.
    pub const MAX_OUTPUTS: usize = 4;
}

/// The functions of one level.
///
/// Every pointer stands for a region of as many bytes as the argument after it (or `Dot::bytes`) says: readable,
/// or writable when `*mut`. Regions may start and end anywhere. A source may be its destination, but regions
/// must not overlap otherwise. The processor must have the level's instructions.
struct Routines {
    xor: unsafe fn(*const u8, *mut u8, usize),
    mul: unsafe fn(u8, *const u8, *mut u8, usize),
    mul_add: unsafe fn(u8, *const u8, *mut u8, usize),
    dot: unsafe fn(&Dot<'_>),
    /// `(sources, destination, bytes, accumulate)`: the XOR of as many sources as `Dot::MAX_INPUTS` at most, one at least.
    sum: unsafe fn(&[*const u8], *mut u8, usize, bool),
    /// Continues the residue's parts over pairs of rows: `(pairs, count, residue)`.
    add_pairs: unsafe fn(*const u8, usize, &mut Residue),
    /// `(c, local, acc, count, …)`: as `add_pairs` for both, and acc += c·local.
    hop_pairs: unsafe fn(u8, *const u8, *mut u8, usize, &mut Residue, &mut Residue),
    /// Both sums of a fingerprint from the residue.
    finish: unsafe fn(&Residue) -> [u8; crate::FINGERPRINT_BYTES],
}

/// Region arithmetic over GF(2^8) (0x11d) at one SIMD level. All levels give the same bytes.
///
/// Regions may have any length and alignment. Streams that start at equal offsets of a page alias in the cache:
/// whoever lays out many buffers should skew them by a few cache lines.
pub struct Kernels {
    level: Level,
    routines: &'static Routines,
}

static CHOSEN: OnceLock<&'static Kernels> = OnceLock::new();

/// The kernels of this process: the fastest that the processor can run, unless [`force_level`] came first.
pub fn kernels() -> &'static Kernels {
    CHOSEN.get_or_init(|| {
        let best = Level::ALL.into_iter().rev().find_map(Kernels::at);
        best.unwrap_or(&Kernels::SCALAR)
    })
}

/// Makes [`kernels`] answer with `level`, for tests and measurements. To be called before anything uses them.
///
/// # Errors
/// [`GfError::LevelUnavailable`] when the processor lacks the instructions, [`GfError::LevelChosen`] when
/// another level is in use already.
pub fn force_level(level: Level) -> Result<(), GfError> {
    let forced = Kernels::at(level).ok_or(GfError::LevelUnavailable(level))?;
    let chosen = CHOSEN.get_or_init(|| forced).level;
    if chosen == level { Ok(()) } else { Err(GfError::LevelChosen { wanted: level, chosen }) }
}

impl Kernels {
    const SCALAR: Self = Self { level: Level::Scalar, routines: &scalar::ROUTINES };

    /// The kernels of `level`; `None` when this processor cannot run them.
    #[cfg(target_arch = "x86_64")]
    pub fn at(level: Level) -> Option<&'static Self> {
        const SSSE3: Kernels = Kernels { level: Level::Ssse3, routines: &ssse3::ROUTINES };
        const AVX2: Kernels = Kernels { level: Level::Avx2, routines: &avx2::ROUTINES };
        const GFNI512: Kernels = Kernels { level: Level::Gfni512, routines: &gfni::ROUTINES };
        let gfni512 = || {
            is_x86_feature_detected!("gfni")
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
        };
        match level {
            Level::Scalar => Some(&Self::SCALAR),
            Level::Ssse3 => is_x86_feature_detected!("ssse3").then_some(&SSSE3),
            Level::Avx2 => is_x86_feature_detected!("avx2").then_some(&AVX2),
            Level::Gfni512 => gfni512().then_some(&GFNI512),
        }
    }

    /// The kernels of `level`; `None` when this processor cannot run them.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn at(level: Level) -> Option<&'static Self> {
        (level == Level::Scalar).then_some(&Self::SCALAR)
    }

    /// The level that these kernels are written for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// `dst ^= src`.
    ///
    /// # Panics
    /// When the lengths differ; so do the functions below.
    pub fn xor(&self, src: &[u8], dst: &mut [u8]) {
        assert_eq!(src.len(), dst.len(), "xor of regions of different length");
        // SAFETY: both slices have `src.len()` bytes and, one of them being exclusive, do not overlap; a level's
        // `Kernels` is only handed out when the processor can run it.
        unsafe { (self.routines.xor)(src.as_ptr(), dst.as_mut_ptr(), src.len()) }
    }

    /// `dst = c · src`.
    pub fn mul(&self, c: u8, src: &[u8], dst: &mut [u8]) {
        assert_eq!(src.len(), dst.len(), "mul of regions of different length");
        match c {
            0 => dst.fill(0),
            1 => dst.copy_from_slice(src),
            // SAFETY: as in `xor`.
            _ => unsafe { (self.routines.mul)(c, src.as_ptr(), dst.as_mut_ptr(), src.len()) },
        }
    }

    /// `region = c · region`.
    pub fn mul_in_place(&self, c: u8, region: &mut [u8]) {
        match c {
            0 => region.fill(0),
            1 => {}
            // SAFETY: as in `xor`, but that source and destination are one region, which routines allow; both
            // pointers come from the same exclusive borrow.
            _ => unsafe {
                let start = region.as_mut_ptr();
                (self.routines.mul)(c, start, start, region.len());
            },
        }
    }

    /// `dst ^= c · src`.
    pub fn mul_add(&self, c: u8, src: &[u8], dst: &mut [u8]) {
        assert_eq!(src.len(), dst.len(), "mul_add of regions of different length");
        match c {
            0 => {}
            1 => self.xor(src, dst),
            // SAFETY: as in `xor`.
            _ => unsafe { (self.routines.mul_add)(c, src.as_ptr(), dst.as_mut_ptr(), src.len()) },
        }
    }

    /// # Safety
    /// As [`Routines`] asks; `coefficients` has `outputs × inputs` entries, neither count is zero or beyond
    /// `Dot::MAX_INPUTS` and `Dot::MAX_OUTPUTS`.
    pub(crate) unsafe fn dot(&self, dot: &Dot<'_>) {
        // SAFETY: the caller's promise; the processor can run what `Kernels::at` hands out.
        unsafe { (self.routines.dot)(dot) }
    }

    /// The XOR of `sources`, added to what the destination holds if `accumulate`.
    ///
    /// # Safety
    /// As [`Routines`] asks; from one source to `Dot::MAX_INPUTS`.
    pub(crate) unsafe fn sum(
        &self,
        sources: &[*const u8],
        destination: *mut u8,
        bytes: usize,
        accumulate: bool,
    ) {
        // SAFETY: as in `dot`.
        unsafe { (self.routines.sum)(sources, destination, bytes, accumulate) }
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").field("level", &self.level).finish_non_exhaustive()
    }
}
