//! Degraded reads, of 4 KiB and of whole blocks, while one helper is slow or stands still.
//!
//! Each client first reads while all are healthy, and so knows what is usual; then the helper becomes what it is to be. Of the
//! long reads the slower of two counts: who is not asked by the first one has been selected longest ago, and is by the next.

use super::{HEALTHY, STALLS, TENTH};
use crate::error::{LabError, Result, bad};
use crate::experiments::degraded;
use crate::experiments::stand::{ORDER, Stand};
use crate::report::{Label, Results, sample};
use crate::testbed::LinkRate;
use client::{ByteRange, Client, GetOptions};
use model::NodeId;
use std::io;
use std::ops::Range;
use std::sync::mpsc;

/// Bytes that hedges were to carry, for each byte that the read carries without.
pub const EXTRA: &str = "hedge_share";

pub const HEALTHY_READ: &str = "4 KiB healthy read";
pub const HEDGED: &str = "4 KiB degraded read, hedged";
pub const SHORT_PATIENT: &str = "4 KiB degraded read, patient";
pub const LONG_MENDED: &str = "block read, mended";
pub const LONG_PATIENT: &str = "block read, patient";

const SHORT_BYTES: u64 = 4 << 10;

/// Reads that each client does while all are healthy: short ones until a rare slow one says nothing.
const SHORT_WARM_UPS: usize = 64;
const LONG_WARM_UPS: usize = 4;

/// Who waits for a helper that stands still reads no longer than until the coordinator holds it to be dead.
const STALLED_READS: usize = 2;

/// One client's reads.
#[derive(Clone, Copy)]
struct Reads {
    label: Label,
    is_short: bool,
    is_healthy: bool,
    patient: bool,
}

const CONTENDERS: [Reads; 5] = [
    Reads { label: Label::rival(HEALTHY_READ), is_short: true, is_healthy: true, patient: false },
    Reads { label: Label::subject(HEDGED), is_short: true, is_healthy: false, patient: false },
    Reads { label: Label::rival(SHORT_PATIENT), is_short: true, is_healthy: false, patient: true },
    Reads { label: Label::subject(LONG_MENDED), is_short: false, is_healthy: false, patient: false },
    Reads { label: Label::rival(LONG_PATIENT), is_short: false, is_healthy: false, patient: true },
];

/// All of them under all conditions, while the node of the first block is dead.
///
/// # Errors
/// Of the cluster, the testbed, the reads.
pub fn measure(stand: &mut Stand<'_>, straggler: NodeId, results: &mut Results) -> Result<()> {
    let lost = stand.stripes[0].members[0];
    (stand.bench.say)(&format!("killing {lost}, which holds the first block; {straggler} will be slow"));
    stand.cluster.stop_node(lost)?;
    let rate = stand.testbed.limits().ports[stand.cluster.host_of(straggler)?.index];
    for x in [HEALTHY, TENTH, STALLS] {
        for contender in CONTENDERS.iter().filter(|reads| x == HEALTHY || !reads.is_healthy) {
            let rounds = if contender.is_short { 1 } else { results.setup.runs };
            for _ in 0..rounds {
                let taken = read(stand, contender, straggler, x);
                restore(stand, straggler, rate, x)?;
                for (seconds, extra) in taken? {
                    results.add(contender.label, x, sample([(ORDER, seconds), (EXTRA, extra)]));
                }
            }
            let seconds = results.median(contender.label.name, x).unwrap_or_default();
            let at = results.x.text(x);
            (stand.bench.say)(&format!("{} with {at}: {seconds:.4} s", contender.label.name));
        }
    }
    stand.cluster.start_node(lost)
}

fn restore(stand: &mut Stand<'_>, straggler: NodeId, rate: LinkRate, x: f64) -> Result<()> {
    let host = stand.cluster.host_of(straggler)?.index;
    match x {
        TENTH => stand.testbed.set_host_rate(host, rate),
        STALLS => stand.cluster.thaw_node(straggler),
        _ => Ok(()),
    }
}

/// The reads of one client: seconds, and what hedges carried beside. The straggler is what `x` says from the first that counts.
fn read(stand: &mut Stand<'_>, reads: &Reads, straggler: NodeId, x: f64) -> Result<Vec<(f64, f64)>> {
    let Stand { testbed, cluster, stripes, bench, .. } = stand;
    let (cluster, stripe) = (&*cluster, &stripes[0]);
    let (host, slow) = (cluster.host_of(stripe.requestor)?.index, cluster.host_of(straggler)?.index);
    let count = match (reads.is_short, reads.patient && x == STALLS) {
        (false, _) => 2,
        (true, true) => STALLED_READS,
        (true, false) => bench.sized(300, 40),
    };
    let (ready, warm) = mpsc::sync_channel(1);
    let (go, begins) = mpsc::sync_channel(1);
    let work = async move |client: Client| {
        let warm_ups = if reads.is_short { SHORT_WARM_UPS } else { LONG_WARM_UPS };
        let one = async || reads.one(&client, &stripe.object, stripe.block_bytes, stripe.code.k()).await;
        for _ in 0..warm_ups {
            one().await?;
        }
        let _ = ready.send(());
        begins.recv().map_err(|_| bad("the straggler was not made slow"))?;
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(one().await?);
        }
        Ok(taken)
    };
    let taken = std::thread::scope(|scope| {
        let reader = scope.spawn(|| cluster.with_client(host, work));
        // Without a word the reads have failed, and say why.
        if warm.recv().is_ok() {
            match x {
                TENTH => {
                    let tenth = LinkRate { bits_per_s: testbed.limits().ports[slow].bits_per_s / 10 };
                    testbed.set_host_rate(slow, tenth)?;
                }
                STALLS => cluster.freeze_node(straggler),
                _ => {}
            }
            let _ = go.send(());
        }
        reader
            .join()
            .map_err(|_| LabError::Io { what: "read".to_owned(), source: io::ErrorKind::Other.into() })?
    })?;
    let slower = |a: (f64, f64), b: (f64, f64)| if a.0 >= b.0 { a } else { b };
    Ok(if reads.is_short { taken } else { taken.into_iter().reduce(slower).into_iter().collect() })
}

impl Reads {
    /// Seconds, and the bytes of hedges for each that the read itself carries.
    async fn one(&self, client: &Client, object: &str, block_bytes: u64, k: usize) -> Result<(f64, f64)> {
        let first = if self.is_healthy { block_bytes } else { 0 };
        let length = if self.is_short { SHORT_BYTES } else { block_bytes };
        let bytes = Range { start: first, end: first + length };
        let options = GetOptions {
            range: Some(ByteRange::From { first: bytes.start, last: Some(bytes.end - 1) }),
            patient: self.patient,
            ..GetOptions::default()
        };
        let (seconds, report) = degraded::timed(client, object, options).await?;
        if report.bytes != length || (report.degraded_blocks == 0) != self.is_healthy {
            return Err(bad(format!(
                "{}: it gave {} B, and was another read",
                self.label.name, report.bytes
            )));
        }
        let carried = length * if self.is_healthy { 1 } else { k as u64 };
        Ok((seconds, report.hedges.bytes as f64 / carried as f64))
    }
}
