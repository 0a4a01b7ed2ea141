//! Leases of puts: renewed while bytes move, and for a lease after its commit a put is remembered, so that a client whose
//! answer was lost can ask again.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::{CatalogError, Result};
use crate::rows::{EndedPutRow, ObjectRow, PutRow};
use crate::table::{Change, Read};
use model::{NodeId, PutId};
use std::collections::BTreeSet;

/// In place of the digest of a put whose commit nobody asked for. No bytes are known to have it.
const UNKNOWN_DIGEST: [u8; 32] = [0; 32];

/// When a put ends.
#[derive(Clone, Copy, Debug)]
pub struct PutEnd {
    /// On the cluster's clock.
    pub now_ms: u64,
    /// On the wall's.
    pub created_ms: u64,
    /// It is remembered until then, on the cluster's clock.
    pub remembered_until_ms: u64,
}

/// What a client is told of a put that is committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommittedPut {
    /// The object.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Its length.
    pub object_bytes: u64,
    /// Length of its blocks but the last.
    pub block_bytes: u64,
    /// How many they are.
    pub block_count: u64,
    /// When it was committed, by the wall clock.
    pub created_ms: u64,
    /// Nodes that were started since they wrote copies of it. Empty if the put is asked for again.
    pub unconfirmed: BTreeSet<NodeId>,
}

impl Catalog {
    /// Moves the end of a pending put's lease. It never comes nearer.
    pub fn renew_put(&self, put: PutId, lease_until_ms: u64) -> Result<()> {
        self.change(|txn| {
            let row = txn.get::<PutRow>(&put)?.ok_or(CatalogError::NoSuchPut)?;
            let lease_until_ms = row.lease_until_ms.max(lease_until_ms);
            txn.put(&put, &PutRow { lease_until_ms, ..row })
        })
    }

    /// Forgets puts that were committed longer than a lease ago, so many at once.
    pub fn forget_ended_puts(&self, now_ms: u64, limit: usize) -> Result<()> {
        let mut past: Vec<PutId> = Vec::new();
        self.view(|txn| {
            txn.scan::<EndedPutRow>(&[], |put, row| {
                if row.until_ms < now_ms {
                    past.push(put);
                }
                Ok(if past.len() < limit { Scan::Next } else { Scan::Stop })
            })
        })?;
        // Nearly always there is none: then nothing is written.
        if past.is_empty() {
            return Ok(());
        }
        self.change(|txn| past.iter().try_for_each(|put| txn.remove::<EndedPutRow>(put).map(|_| ())))
    }
}

/// Notes what the client of a put that commits is told.
pub(crate) fn remember(
    txn: &Change,
    put: PutId,
    name: &str,
    object: &ObjectRow,
    end: PutEnd,
) -> Result<CommittedPut> {
    let row = EndedPutRow {
        name: name.to_owned(),
        version: object.version,
        object_bytes: object.object_bytes,
        digest: object.digest.unwrap_or(UNKNOWN_DIGEST),
        block_bytes: object.block_bytes,
        block_count: object.blocks.len() as u64,
        created_ms: object.created_ms,
        until_ms: end.remembered_until_ms,
    };
    txn.put(&put, &row)?;
    Ok(row.into())
}

/// What was answered when the put was committed; an error if it never was, or not with these bytes. A put that was settled counts
/// as committed with a digest that nobody knew: its client does, and from then on the object has it.
pub(crate) fn repeated(
    txn: &Change,
    put: PutId,
    object_bytes: u64,
    digest: &[u8; 32],
) -> Result<CommittedPut> {
    let row = txn.get::<EndedPutRow>(&put)?.ok_or(CatalogError::NoSuchPut)?;
    let is_unknown = row.digest == UNKNOWN_DIGEST;
    if row.object_bytes != object_bytes || !(is_unknown || row.digest == *digest) {
        return Err(CatalogError::NoSuchPut);
    }
    if is_unknown && *digest != UNKNOWN_DIGEST {
        txn.put(&put, &EndedPutRow { digest: *digest, ..row.clone() })?;
        let object = txn.get::<ObjectRow>(&row.name)?;
        if let Some(object) = object.filter(|o| o.version == row.version && o.digest.is_none()) {
            txn.put(&row.name, &ObjectRow { digest: Some(*digest), ..object })?;
        }
    }
    Ok(row.into())
}

impl From<EndedPutRow> for CommittedPut {
    fn from(row: EndedPutRow) -> CommittedPut {
        let EndedPutRow { name, version, object_bytes, block_bytes, block_count, created_ms, .. } = row;
        let unconfirmed = BTreeSet::new();
        CommittedPut { name, version, object_bytes, block_bytes, block_count, created_ms, unconfirmed }
    }
}
