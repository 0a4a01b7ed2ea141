//! Get: an object's blocks, read in order with one ahead, checked against the digest of the whole.

use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::flight::Hedges;
use crate::options::GetOptions;
use crate::range::ByteRange;
use crate::read::{BlockRead, Reading, Sum, Together};
use crate::together::{Unit, units};
use crate::writer::{Writer, Written};
use flow::limits;
use model::{BlockId, NodeId};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::proto::{BlockInfo, ObjectInfo};

/// One block is written out while the next one's flow is being set up and fills its queues.
const READS_IN_FLIGHT: usize = 2;

/// What a get did.
#[derive(Clone, Debug)]
pub struct GetReport {
    /// The object as it was read.
    pub object: ObjectInfo,
    /// Bytes that went out.
    pub bytes: u64,
    /// Blocks that had to be decoded from others.
    pub degraded_blocks: u64,
    /// Nodes that reads went around because they were slow.
    pub around: BTreeSet<NodeId>,
    /// Flows that were asked for beside short ones that were late.
    pub hedges: Hedges,
    /// Whether the digest of the whole object was compared. A range does not allow it, nor does an object of a
    /// catalog that was rebuilt from the nodes. Every slice of a flow is verified in any case.
    pub digest_checked: bool,
}

impl Client {
    /// Writes an object, or a range of it, to `output`, in order and as it comes. Needs memory for some slices.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], [`ClientError::RangeOutside`], [`ClientError::Flow`] when too few nodes are left,
    /// [`ClientError::WrongDigest`] — after the bytes went out: who cannot take that uses [`Client::get_to_file`].
    pub async fn get(
        &self,
        name: &str,
        output: impl Write + Send + 'static,
        options: GetOptions,
    ) -> Result<GetReport> {
        let object = self.lookup_to_read(name).await?;
        self.get_found(name, object, output, options).await
    }

    /// The same, of an object that was looked up.
    async fn get_found(
        &self,
        name: &str,
        object: ObjectInfo,
        output: impl Write + Send + 'static,
        options: GetOptions,
    ) -> Result<GetReport> {
        let (result, output) = self.get_version(object, output, &options).await;
        // The object may have been replaced since the lookup. As long as nothing went out, the new one will do.
        match (result, output) {
            (Err(Broken { error: ClientError::NotFound(_), written: 0 }), Some(output)) => {
                let object = self.lookup_to_read(name).await?;
                let (result, _) = self.get_version(object, output, &options).await;
                result.map_err(|broken| broken.into_error(name))
            }
            (result, _) => result.map_err(|broken| broken.into_error(name)),
        }
    }

    /// The same into a file, which gets its name only once all is right. A pipe or a device is written to directly. Of blocks that
    /// are virtual the file takes all of a stripe at once, in any order, as a stream cannot.
    pub async fn get_to_file(&self, name: &str, path: &Path, options: GetOptions) -> Result<GetReport> {
        let failed = |e: std::io::Error, path: &Path| {
            ClientError::Output(Arc::new(std::io::Error::new(e.kind(), format!("{}: {e}", path.display()))))
        };
        if path.metadata().is_ok_and(|m| !m.is_file()) {
            let file = File::options().write(true).open(path).map_err(|e| failed(e, path))?;
            return self.get(name, file, options).await;
        }
        let partial = Partial(partial_name(path));
        let file = File::options().read(true).write(true).create_new(true).open(&partial.0);
        let file = file.map_err(|e| failed(e, path))?;
        let object = self.lookup_to_read(name).await?;
        let units = units(plan_reads(&object, options.range)?);
        let report = match units.iter().any(Unit::is_together) {
            true => self.get_together(object, units, file, &options).await?,
            false => self.get_found(name, object, file, options).await?,
        };
        std::fs::rename(&partial.0, path).map_err(|e| failed(e, path))?;
        Ok(report)
    }

    /// Blocks of a stripe at once, and the digest of the whole then.
    async fn get_together(
        &self,
        object: ObjectInfo,
        units: Vec<Unit>,
        file: File,
        options: &GetOptions,
    ) -> Result<GetReport> {
        let name = object.name.clone();
        let total = units.iter().map(Unit::bytes).sum();
        let ended = self.read_units(units, file, options).await;
        let concluded = match ended {
            Ok((read, written)) => conclude(object, total, options.range.is_none(), Ok(read), written),
            Err((error, written)) => Err(Broken { error, written }),
        };
        concluded.map_err(|broken| broken.into_error(&name))
    }

    async fn get_version<W: Write + Send + 'static>(
        &self,
        object: ObjectInfo,
        output: W,
        options: &GetOptions,
    ) -> (Result<GetReport, Broken>, Option<W>) {
        let reads = match plan_reads(&object, options.range) {
            Ok(reads) => reads,
            Err(error) => return (Err(Broken { error, written: 0 }), Some(output)),
        };
        let total = reads.iter().map(|read| read.range.end - read.range.start).sum();
        let piece_bytes =
            if options.slice_bytes == 0 { limits::DEFAULT_SLICE_BYTES } else { options.slice_bytes };
        let writer = Writer::start(output, total, piece_bytes as usize, options.progress.clone());
        let read = self.run_reads(reads, &writer, options).await;
        let (written, output) = match writer.finish().await {
            Ok(ended) => ended,
            Err(error) => return (Err(Broken { error: broken_task(error), written: total }), None),
        };
        (conclude(object, total, options.range.is_none(), read, written), Some(output))
    }

    /// Runs the reads, in order, a few at a time.
    async fn run_reads<W: Write + Send + 'static>(
        &self,
        reads: Vec<BlockRead>,
        writer: &Writer<W>,
        options: &GetOptions,
    ) -> Result<Sum> {
        let mut running: VecDeque<Reading> = VecDeque::new();
        let mut sum = Sum::default();
        let mut reads = reads.into_iter();
        loop {
            while running.len() < READS_IN_FLIGHT {
                let Some(read) = reads.next() else { break };
                let Some(pieces) = writer.queue(read.range.end - read.range.start).await else { break };
                running.push_back(self.begin_read(read, pieces, options));
            }
            let Some(oldest) = running.pop_front() else { return Ok(sum) };
            sum.add(oldest.end().await?, 1);
        }
    }
}

/// A get that failed after so many bytes.
struct Broken {
    error: ClientError,
    written: u64,
}

impl Broken {
    fn into_error(self, name: &str) -> ClientError {
        match self.error {
            ClientError::NotFound(_) => ClientError::Changed(name.to_owned()),
            error => error,
        }
    }
}

fn conclude(
    object: ObjectInfo,
    total: u64,
    whole: bool,
    read: Result<Sum>,
    written: std::io::Result<Written>,
) -> Result<GetReport, Broken> {
    // An output that failed also makes the reads fail; it is the cause.
    let written = written.map_err(|e| Broken { error: ClientError::Output(Arc::new(e)), written: total })?;
    let sum = read.map_err(|error| Broken { error, written: written.bytes })?;
    if written.bytes != total {
        let error = ClientError::Bug(format!("{} bytes went out of {total}", written.bytes));
        return Err(Broken { error, written: written.bytes });
    }
    // A catalog that was rebuilt from the nodes knows the digests of blocks, not of objects.
    let comparable = whole && !object.digest.is_empty();
    if comparable && written.digest.as_bytes() != object.digest.as_slice() {
        let error = ClientError::WrongDigest {
            name: object.name.clone(),
            got: written.digest.to_hex().to_string(),
            expected: object.digest.iter().map(|b| format!("{b:02x}")).collect(),
        };
        return Err(Broken { error, written: written.bytes });
    }
    let Sum { degraded_blocks, around, hedges } = sum;
    let bytes = written.bytes;
    Ok(GetReport { object, bytes, degraded_blocks, around, hedges, digest_checked: comparable })
}

/// The parts of blocks that make up the range, in order.
pub(crate) fn plan_reads(object: &ObjectInfo, range: Option<ByteRange>) -> Result<Vec<BlockRead>> {
    let wanted = match range {
        None => 0..object.object_bytes,
        Some(range) => range.within(object.object_bytes).ok_or_else(|| ClientError::RangeOutside {
            range: range.to_string(),
            name: object.name.clone(),
            object_bytes: object.object_bytes,
        })?,
    };
    let mut reads = Vec::new();
    let mut covered = wanted.start;
    for block in &object.blocks {
        let Some(range) = part_of(block, &wanted) else { continue };
        if block.offset + range.start != covered {
            break;
        }
        covered = block.offset + range.end;
        let id = BlockId::from_slice(&block.block).map_err(|e| ClientError::Protocol(e.to_string()))?;
        let together = virtual_place(block, &range);
        reads.push(BlockRead { name: object.name.clone(), index: block.index, block: id, range, together });
    }
    if covered != wanted.end {
        return Err(ClientError::Protocol(format!(
            "the blocks of '{}' do not make up its bytes",
            object.name
        )));
    }
    Ok(reads)
}

/// Where a virtual block stands that is read whole: others of its stripe can be read with it.
fn virtual_place(block: &BlockInfo, range: &Range<u64>) -> Option<Together> {
    let stripe = block.stripe.as_ref().filter(|stripe| stripe.room_bytes >= block.stored_bytes.max(1))?;
    let member = u16::try_from(stripe.index).ok()?;
    let place = Together { stripe: stripe.stripe.clone(), member, room_bytes: stripe.room_bytes };
    (*range == (0..block.stored_bytes)).then_some(place)
}

/// The bytes of `block` that lie in `wanted`.
fn part_of(block: &BlockInfo, wanted: &Range<u64>) -> Option<Range<u64>> {
    let end = block.offset.checked_add(block.stored_bytes)?.min(wanted.end);
    let start = block.offset.max(wanted.start);
    (start < end).then(|| start - block.offset..end - block.offset)
}

/// A file under a temporary name, removed unless it was renamed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The file lies beside the final name, so that renaming moves no bytes.
fn partial_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{:08x}.partial", rand::random::<u32>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(stored: &[u64]) -> ObjectInfo {
        let mut offset = 0;
        let blocks = stored.iter().enumerate().map(|(index, &stored_bytes)| {
            let block = BlockId(index as u128).to_vec();
            offset += stored_bytes;
            BlockInfo {
                block,
                index: index as u64,
                offset: offset - stored_bytes,
                stored_bytes,
                ..Default::default()
            }
        });
        ObjectInfo {
            name: "a".to_owned(),
            blocks: blocks.collect(),
            object_bytes: stored.iter().sum(),
            ..Default::default()
        }
    }

    fn parts(object: &ObjectInfo, range: &str) -> Vec<(u64, Range<u64>)> {
        let range = (!range.is_empty()).then(|| range.parse().unwrap());
        plan_reads(object, range).unwrap().into_iter().map(|read| (read.index, read.range)).collect()
    }

    #[test]
    fn a_range_becomes_parts_of_blocks() {
        let object = object(&[100, 100, 30]);
        assert_eq!(parts(&object, ""), [(0, 0..100), (1, 0..100), (2, 0..30)]);
        assert_eq!(parts(&object, "0-0"), [(0, 0..1)]);
        assert_eq!(parts(&object, "99-100"), [(0, 99..100), (1, 0..1)]);
        assert_eq!(parts(&object, "-31"), [(1, 99..100), (2, 0..30)]);
        assert!(matches!(
            plan_reads(&object, Some(ByteRange::From { first: 230, last: None })),
            Err(ClientError::RangeOutside { .. })
        ));
    }

    #[test]
    fn an_empty_object_is_read_and_a_hole_is_noticed() {
        assert_eq!(parts(&object(&[0]), ""), []);
        let mut holed = object(&[100, 100]);
        holed.blocks.remove(0);
        assert!(matches!(plan_reads(&holed, None), Err(ClientError::Protocol(_))));
    }
}
