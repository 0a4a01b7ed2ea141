//! Reads into a file, where virtual blocks of a stripe come together, each stripe in turn.

use crate::ask::Ask;
use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::options::{GetOptions, Progress};
use crate::read::{BlockRead, HowRead, Sum};
use crate::scatter::{Place, Scatter};
use crate::writer::{Writer, Written};
use flow::limits;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What is read at once.
pub(crate) enum Unit {
    /// A part of a block.
    Alone(BlockRead),
    /// Whole virtual blocks of one stripe, which follow each other.
    Together {
        reads: Vec<BlockRead>,
        /// Which members of the stripe they are.
        members: Vec<u16>,
        /// What each takes up in the read.
        each: u64,
    },
}

impl Unit {
    pub fn is_together(&self) -> bool {
        matches!(self, Unit::Together { .. })
    }

    /// Its blocks.
    pub fn reads(&self) -> &[BlockRead] {
        match self {
            Unit::Alone(read) => std::slice::from_ref(read),
            Unit::Together { reads, .. } => reads,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.reads().iter().map(|read| read.range.end - read.range.start).sum()
    }

    /// What it asks for, as `options` have it; for blocks of one stripe everything may come before its turn.
    pub fn ask(&self, options: &GetOptions, room_bytes: u64) -> Ask {
        let reads = self.reads();
        let (begin, end) = match (self, reads) {
            (Unit::Together { each, .. }, [.., last]) => {
                (0, each * (reads.len() as u64 - 1) + last.range.end)
            }
            (_, [only, ..]) => (only.range.start, only.range.end),
            (_, []) => (0, 0),
        };
        Ask {
            blocks: reads.iter().map(|read| read.block).collect(),
            range: begin..end,
            room_bytes: if self.is_together() { u64::MAX } else { room_bytes },
            scheme: options.scheme.clone(),
            slice_bytes: options.slice_bytes,
            ..Ask::default()
        }
    }
}

/// Puts reads together that one flow can serve. Those of part of a block stay alone: decoding others would cost more.
pub(crate) fn units(reads: Vec<BlockRead>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for read in reads {
        let Some(place) = read.together.clone() else {
            units.push(Unit::Alone(read));
            continue;
        };
        let is_beside = |last: &BlockRead| last.together.as_ref().is_some_and(|l| l.stripe == place.stripe);
        match units.last_mut() {
            Some(Unit::Together { reads, members, .. }) if reads.last().is_some_and(is_beside) => {
                reads.push(read);
                members.push(place.member);
            }
            _ => {
                let (members, each) = (vec![place.member], place.room_bytes);
                units.push(Unit::Together { reads: vec![read], members, each });
            }
        }
    }
    let alone = |unit: Unit| match unit {
        Unit::Together { mut reads, .. } if reads.len() == 1 => reads.pop().map(Unit::Alone),
        unit => Some(unit),
    };
    units.into_iter().filter_map(alone).collect()
}

impl Client {
    /// Reads unit after unit into their places in a file, and reads that once for its digest.
    ///
    /// # Errors
    /// The error, and how many bytes are there.
    pub(crate) async fn read_units(
        &self,
        units: Vec<Unit>,
        file: File,
        options: &GetOptions,
    ) -> Result<(Sum, io::Result<Written>), (ClientError, u64)> {
        let file = Arc::new(file);
        let total: u64 = units.iter().map(Unit::bytes).sum();
        let (mut sum, mut at) = (Sum::default(), 0);
        for unit in units {
            let (bytes, blocks) = (unit.bytes(), unit.reads().len() as u64);
            let how = self.read_unit(unit, &file, (at, total), options).await.map_err(|error| (error, at))?;
            sum.add(how, blocks);
            at += bytes;
        }
        let hashing = tokio::task::spawn_blocking(move || written(&file));
        let written = hashing.await.map_err(|error| (broken_task(error), at))?;
        Ok((sum, written))
    }

    async fn read_unit(
        &self,
        unit: Unit,
        file: &Arc<File>,
        (at, total): (u64, u64),
        options: &GetOptions,
    ) -> Result<HowRead> {
        let ask = unit.ask(options, 0);
        let (reads, members, each) = match unit {
            Unit::Alone(read) => return self.read_alone(read, file, (at, total), options).await,
            Unit::Together { reads, members, each } => (reads, members, each),
        };
        let (mut places, mut next) = (Vec::new(), at);
        for (read, member) in reads.iter().zip(members) {
            places.push(Place { member, at: next, stored_bytes: read.range.end });
            next += read.range.end;
        }
        let what = match &reads[..] {
            [first, .., last] => {
                format!("reading blocks {} to {} of '{}'", first.index, last.index, first.name)
            }
            _ => String::new(),
        };
        let progress = options.progress.clone().map(|progress| (progress, at, total));
        let intake = Scatter::new(Arc::clone(file), places, each, progress);
        self.read_into(ask, what, intake, options.patient).await
    }

    async fn read_alone(
        &self,
        read: BlockRead,
        file: &Arc<File>,
        (at, total): (u64, u64),
        options: &GetOptions,
    ) -> Result<HowRead> {
        let bytes = read.range.end - read.range.start;
        let slice = if options.slice_bytes == 0 { limits::DEFAULT_SLICE_BYTES } else { options.slice_bytes };
        let told = options.progress.clone();
        let progress =
            told.map(|told| -> Progress { Arc::new(move |bytes, _| told(at + bytes, Some(total))) });
        let writer = Writer::start(At { file: Arc::clone(file), at }, bytes, slice as usize, progress);
        let Some(pieces) = writer.queue(bytes).await else {
            return Err(ClientError::Bug("a writer that was just started has ended".to_owned()));
        };
        let read = self.begin_read(read, pieces, options).end().await;
        let (written, _) = writer.finish().await.map_err(broken_task)?;
        // An output that failed also makes the read fail; it is the cause.
        written.map_err(|error| ClientError::Output(Arc::new(error)))?;
        read
    }
}

/// A place in a file.
struct At {
    file: Arc<File>,
    at: u64,
}

impl Write for At {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All that is in a file, read once.
fn written(file: &File) -> io::Result<Written> {
    let mut file = file;
    file.seek(SeekFrom::Start(0))?;
    let (mut hasher, mut bytes, mut buffer) = (blake3::Hasher::new(), 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Written { bytes, digest: hasher.finalize() }),
            Ok(length) => {
                hasher.update(&buffer[..length]);
                bytes += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Together;
    use model::BlockId;

    /// Blocks of ten bytes: of each its stripe, if it is virtual there.
    fn reads(stripes: &[Option<u8>]) -> Vec<BlockRead> {
        let together = |index: usize, stripe: u8| Together {
            stripe: vec![stripe],
            member: index as u16,
            room_bytes: 16,
        };
        let read = |(index, stripe): (usize, &Option<u8>)| BlockRead {
            name: "a".to_owned(),
            index: index as u64,
            block: BlockId(0),
            range: 0..10,
            together: stripe.map(|stripe| together(index, stripe)),
        };
        stripes.iter().enumerate().map(read).collect()
    }

    #[test]
    fn whole_virtual_blocks_of_a_stripe_are_read_together() {
        let all = reads(&[Some(1), Some(1), Some(2), Some(2), Some(2), None, Some(2), None]);
        let units = units(all);
        let lengths = |unit: &Unit| if unit.is_together() { unit.reads().len() } else { 0 };
        assert_eq!(
            units.iter().map(lengths).collect::<Vec<_>>(),
            [2, 3, 0, 0, 0],
            "one by itself is read alone"
        );
        let ask = units[1].ask(&GetOptions::default(), 5);
        assert_eq!((ask.range, ask.blocks.len(), ask.room_bytes), (0..42, 3, u64::MAX));
        let ask = units[2].ask(&GetOptions::default(), 5);
        assert_eq!((ask.range, ask.blocks.len(), ask.room_bytes), (0..10, 1, 5));
    }
}
