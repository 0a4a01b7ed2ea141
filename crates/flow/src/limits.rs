//! Bounds of flows, each with its reason.

/// Slices are at least this long: below, headers and fingerprints outweigh the payload.
pub const MIN_SLICE_BYTES: u32 = 1024;

/// Slices are at most this long: a node holds a few of them per edge in memory.
pub const MAX_SLICE_BYTES: u32 = 256 << 20;

/// The usual slice: the paper's best (RP §6.1), and one fingerprint per frame.
pub const DEFAULT_SLICE_BYTES: u32 = 32 * 1024;

/// The usual slice where a flow has several lanes. Where ten lanes share a port, a slice takes ten times as long on each hop,
/// and a chain of ten as long to fill as a hundred slices alone: with slices of 32 KiB that was 4 to 10 % of a repair. Short
/// slices that follow each other in a lane share frames.
pub const SLICE_BYTES_OF_LANES: u32 = 8 * 1024;

/// Lanes of an encoding: each is a thread and several connections at every data site, and by then more add little.
pub const ENCODE_LANES: usize = 16;

/// The usual block, as HDFS and QFS had it (RP §2.1).
pub const DEFAULT_BLOCK_BYTES: u64 = 64 << 20;

/// The smallest block that an object is cut into: a copy costs the catalog, the stores and a flow about 1 KiB each, whatever it holds.
pub const MIN_BLOCK_BYTES: u64 = 1 << 10;

/// The largest block: 4 GiB of slices of 1 KiB still number less than 2³².
pub const MAX_BLOCK_BYTES: u64 = 4 << 30;

/// Symbols per block: enough for array codes with p in the hundreds.
pub const MAX_ALPHA: u32 = 1024;

/// Rows of a matrix, and columns: a requestor of a wide stripe with many symbols.
pub const MAX_MATRIX_SIDE: u32 = 16 * 1024;

/// Elements of a matrix (8 MiB on the wire), so that a bad message cannot take all memory.
pub const MAX_MATRIX_ELEMENTS: u64 = 4 << 20;

/// Stages of one flow on one node.
pub const MAX_STAGES_PER_NODE: usize = 1024;

/// How far the driver grants past the lowest slice not yet delivered, in bytes of one symbol: enough to keep a
/// dozen hops and their socket buffers busy, little enough that mending has little to throw away.
pub const WINDOW_BYTES: u64 = 32 << 20;

/// Never fewer slices than this in the window, however long the slices: one in each hop of a (40, 32) chain.
pub const MIN_WINDOW_SLICES: u32 = 40;

/// Of one of several lanes so many slices are under way for each of its stages: one that comes and one that goes, and
/// not much more, for lanes share ports. The first hops of all lanes, which wait for nobody, would fill the window and the
/// ports, while nothing reaches the requestor; then everybody waits until it has taken that in.
pub const STAGE_WINDOW_SLICES: u64 = 2;

/// No lane is made to begin slower than this: a run of it, 64 KiB, is through in a quarter of a second, far within
/// [`STALL_MS`], and whoever waits its turn is soon free to end.
pub const MIN_LANE_BYTES_PER_S: u64 = 256 * 1024;

/// A stage ends this long after its driver's last sign of life.
pub const LEASE_MS: u32 = 10_000;

/// A stage that waits longer than this for input says so.
pub const STALL_MS: u32 = 5_000;

/// … also if it waits for a slice of which less came in that time than the shortest one has: a link that gives no more than 200
/// bytes/s is as good as none. What gives more is slow, and goes on.
pub const LEAST_INPUT_BYTES: usize = MIN_SLICE_BYTES as usize;

/// … and for each millisecond more, a slice may be so much longer: nothing can be said of a slice before it is
/// there whole, and a stage deep in the graph waits until it has been received a number of times. A block of 64 MiB in
/// one slice gets a minute more: ten hops over 100 Mb/s each.
pub const PATIENCE_BYTES_PER_MS: u32 = 1024;

/// Whether slices of this length can be verified: chunks and slices must nest.
pub fn slice_bytes_ok(slice_bytes: u32) -> bool {
    let chunk = gf::CHUNK_BYTES as u32;
    (MIN_SLICE_BYTES..=MAX_SLICE_BYTES).contains(&slice_bytes)
        && (slice_bytes.is_multiple_of(chunk) || chunk.is_multiple_of(slice_bytes))
}
