//! What a coordinator can be told.

use crate::clock;
use crate::cluster::{Fleet, Grpc};
use disk::Disk;
use flow::limits;
use model::Assign;
use model::MAX_OBJECT_BLOCKS;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Interval of the nodes' reports: a thousand nodes send a thousand small messages per interval.
pub const HEARTBEAT_MS: u64 = 1_000;

/// Time without an answer after which a node counts as dead. It is called four times in that time, so one lost packet or a long pause does not
/// make it dead.
pub const DEAD_AFTER_MS: u64 = 5_000;

/// Garbage is kept this long: longer than any lease of a flow ([`limits::LEASE_MS`]), so that no reader with an older
/// plan loses the ground, and no late writer outlives the deletion.
pub const GARBAGE_GRACE_MS: u64 = 60_000;

/// A put whose bytes do not move for this long is given up: its client is dead, or stuck.
pub const PUT_LEASE_MS: u64 = 600_000;

/// The cluster's clock is noted this often: what has passed of a grace survives a restart but for this at most, and a sync
/// a minute costs nothing.
pub const CLOCK_NOTE_MS: u64 = 60_000;

/// A coordinator that starts waits so long for nodes to say what they keep of its catalog. They try to register twice a
/// second, and those that live answer within milliseconds.
pub const CATCH_UP_MS: u64 = 10_000;
/// What each node has is compared with the catalog this often: listing its folders costs a disk some seconds, and a copy that
/// vanished is missed by no one who does not read it.
pub const COMPARE_EVERY_MS: u64 = 3_600_000;

/// All of the catalog's file is checked this often, besides at each start: a disk's latent errors are few a year, and reading the file
/// costs it seconds.
pub const CHECK_EVERY_MS: u64 = 7 * 24 * 3_600_000;

/// Replicas of a block before it is archived.
pub const REPLICAS: u32 = 3;

/// Stripes that a node recovery repairs at once (RP §3.3 repairs several in parallel; each loads k+1 nodes). A repair goes
/// as fast as the most crowded of its links, and leaves room on the others that only further repairs fill. Measured by
/// `rp-8e` (66 stripes of RS(14,10) over 16 helpers): 32 at once reach 0.88–0.89 of what the busiest link allows, 64 reach
/// 0.91–0.94.
pub const PARALLEL_REPAIRS: usize = 64;

/// The most stripes that may be asked for at once.
pub const MAX_PARALLEL_REPAIRS: usize = 256;

/// Streams of a node recovery that a node receives (or sends) at once: its disk then serves that many in each direction,
/// which still reads and writes long runs. Of stars ten times as many once met at one port: some of them got nothing for
/// longer than a stage waits, and were taken for broken.
pub const STREAMS_PER_NODE: usize = 48;

/// A budget is divided among so many streams that each gets at least this rate. A slower stream takes over four seconds for a slice of
/// 32 KiB, about the time after which its receiver reports missing input.
pub const LEAST_STREAM_BYTES_PER_S: u64 = 8 << 10;

/// Minimum number of streams per node under any budget. A repair along a chain uses each link only part of the time, so other repairs must
/// fill the gaps: with two streams a recovery at 1 Mbit/s took 2.3 times as long as the links allow.
pub const LEAST_STREAMS_PER_NODE: usize = 8;

/// Bytes of blocks that a node holds in memory for schemes that forward whole ones: they take part in fewer repairs at once.
/// A stage keeps a block and what it adds to it, and all stages of a node share a gibibyte of buffers.
pub const FORWARDED_BYTES_PER_NODE: u64 = 256 << 20;

/// Repairs that a node recovery runs at once while degraded reads are planned: somebody waits for those.
pub const PARALLEL_WHILE_READING: usize = 1;

/// So long after a degraded read was planned a recovery still makes way: reads come in rows, a block each.
pub const READING_MS: u64 = 1_000;

/// A dead node is recovered after this time without being asked: most nodes that fall silent come back within minutes
/// (over 90 % of failures are transient, RP §2.2), and rebuilding moves k times what the node held.
pub const RECOVERY_GRACE_MS: u64 = 15 * 60_000;

/// Blocks begin to move once a node is fuller or emptier than the mean by this part of its capacity: as HDFS's balancer does.
pub const BALANCE_THRESHOLD: f64 = 0.1;

/// Milliseconds between two looks for nodes that are filled unevenly: disks fill in days, and a look goes through all blocks.
pub const BALANCE_EVERY_MS: u64 = 600_000;

/// Milliseconds for which a stripe takes blocks: a day's trickle of small objects fills stripes, and what is put seldom is
/// sealed short soon enough to be encoded the same day.
pub const OPEN_FOR_MS: u64 = 3_600_000;

/// Milliseconds between two looks for stripes that keep much of deleted objects: what was deleted in a row is given back
/// together, within the time in which people look for it.
pub const COMPACT_EVERY_MS: u64 = 600_000;

/// Stripes that an archival encodes at once: one downloads while another writes.
pub const PARALLEL_ENCODINGS: usize = 2;

/// Jobs that run at once; each holds a task, a channel and some plans.
pub const MAX_JOBS: usize = 64;

/// Replicas of a block that a put may ask for.
pub const MAX_REPLICAS: u32 = 16;

/// Parities of an object that is coded as it is written: whoever commits names them in one message, with the blocks.
pub(crate) const MAX_OBJECT_PARITIES: u64 = MAX_OBJECT_BLOCKS;

/// So often is looked for what is old enough to be archived. Ages are told in hours and days, and a look reads the rows of all
/// objects of the buckets that say so.
pub const LOOK_EVERY_MS: u64 = 600_000;

/// No loop turns faster, whatever graces and leases are set to.
pub(crate) const MIN_TICK_MS: u64 = 20;

/// Bytes of blocks in an answer to a lookup: a message with as many is half of what may be sent. A block of a wide stripe takes up to
/// eight thousand with its members.
pub(crate) const LOOKUP_BYTES: usize = wire::limits::MAX_CONTROL_BYTES / 2;

/// Settings of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where gRPC is served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the catalog lives, in `catalog.redb`.
    pub disk: Arc<dyn Disk>,
    /// How nodes are reached; default [`Grpc`].
    pub fleet: Arc<dyn Fleet>,
    /// Milliseconds between the heartbeats that nodes are asked for; default [`HEARTBEAT_MS`].
    pub heartbeat_ms: u64,
    /// Milliseconds after which a node that answers no call is dead; default [`DEAD_AFTER_MS`].
    pub dead_after_ms: u64,
    /// Requests and jobs wait up to `dead_after_ms` after a start for nodes that have not registered yet; default `true`. Tests that start a
    /// coordinator hundreds of times without some of its nodes do not wait.
    pub expects_nodes: bool,
    /// Milliseconds that garbage is kept; default [`GARBAGE_GRACE_MS`].
    pub garbage_grace_ms: u64,
    /// Milliseconds that a put may be idle, and that one which was committed is remembered; default [`PUT_LEASE_MS`].
    pub put_lease_ms: u64,
    /// Block length of puts that name none, bytes; default [`limits::DEFAULT_BLOCK_BYTES`].
    pub block_bytes: u64,
    /// Replicas of puts that name no number; default [`REPLICAS`].
    pub replicas: u32,
    /// Slice length where none is asked for, bytes; default [`limits::DEFAULT_SLICE_BYTES`].
    pub slice_bytes: u32,
    /// Stripes repaired at once by a node recovery that names no number; default [`PARALLEL_REPAIRS`].
    pub parallel: usize,
    /// How helpers are assigned where many blocks are made again and nobody named a way; default [`Assign::Balanced`].
    pub assign: Assign,
    /// Part of its capacity by which a node is off the mean when blocks begin to move; default [`BALANCE_THRESHOLD`].
    pub balance_threshold: f64,
    /// Milliseconds between two looks for that; default [`BALANCE_EVERY_MS`].
    pub balance_every_ms: u64,
    /// Milliseconds from a node's death to its recovery without being asked; default [`RECOVERY_GRACE_MS`].
    pub recovery_grace_ms: u64,
    /// Milliseconds between two notes of the cluster's clock; default [`CLOCK_NOTE_MS`].
    pub clock_note_ms: u64,
    /// Milliseconds for which a start waits for what nodes keep of the catalog; default [`CATCH_UP_MS`].
    pub catch_up_ms: u64,
    /// An empty folder founds a new cluster; default `true`. Else it waits for nodes that know one.
    pub founds: bool,
    /// Changes are acknowledged once two nodes keep them; default `false`: once the coordinator's own disk has them.
    pub waits_for_holders: bool,
    /// Milliseconds between two comparisons of a node with the catalog; default [`COMPARE_EVERY_MS`].
    pub compare_every_ms: u64,
    /// Milliseconds between two checks of the catalog's file; default [`CHECK_EVERY_MS`].
    pub check_every_ms: u64,
    /// Bytes that a file keeps free for a start on a full disk; default 0. The program sets [`catalog::RESERVE_BYTES`].
    pub reserve_bytes: u64,
    /// Milliseconds for which a stripe takes blocks; default [`OPEN_FOR_MS`].
    pub open_for_ms: u64,
    /// Milliseconds between two looks for what is old enough to be archived; default [`LOOK_EVERY_MS`].
    pub archive_look_ms: u64,
    /// Bytes of blocks in an answer to a lookup; default [`LOOKUP_BYTES`].
    pub lookup_bytes: usize,
    /// Milliseconds since 1970, for what people are told; default the system's clock.
    pub wall_ms: fn() -> u64,
}

impl Config {
    /// The defaults.
    pub fn new(listen: SocketAddr, disk: Arc<dyn Disk>) -> Config {
        Config {
            listen,
            disk,
            fleet: Arc::new(Grpc::default()),
            heartbeat_ms: HEARTBEAT_MS,
            dead_after_ms: DEAD_AFTER_MS,
            expects_nodes: true,
            garbage_grace_ms: GARBAGE_GRACE_MS,
            put_lease_ms: PUT_LEASE_MS,
            block_bytes: limits::DEFAULT_BLOCK_BYTES,
            replicas: REPLICAS,
            slice_bytes: limits::DEFAULT_SLICE_BYTES,
            parallel: PARALLEL_REPAIRS,
            assign: Assign::Balanced,
            balance_threshold: BALANCE_THRESHOLD,
            balance_every_ms: BALANCE_EVERY_MS,
            recovery_grace_ms: RECOVERY_GRACE_MS,
            clock_note_ms: CLOCK_NOTE_MS,
            catch_up_ms: CATCH_UP_MS,
            founds: true,
            waits_for_holders: false,
            compare_every_ms: COMPARE_EVERY_MS,
            check_every_ms: CHECK_EVERY_MS,
            reserve_bytes: 0,
            open_for_ms: OPEN_FOR_MS,
            archive_look_ms: LOOK_EVERY_MS,
            lookup_bytes: LOOKUP_BYTES,
            wall_ms: clock::wall_ms,
        }
    }
}

/// The time between two steps of a worker: as usual, or as short as what it waits for.
pub(crate) fn tick(usual_ms: u64, waits_for_ms: u64) -> Duration {
    Duration::from_millis(usual_ms.min(waits_for_ms).max(MIN_TICK_MS))
}
