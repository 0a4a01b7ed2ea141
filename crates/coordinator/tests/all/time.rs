//! Leases and graces are counted on the time that passes, whatever the wall's clock shows; and a lease lasts as long as
//! somebody renews it.

use crate::support::{Cluster, Settings, write_request, written};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::Code;
use wire::proto;

const YEAR_MS: u64 = 365 * 24 * 3_600_000;

/// What the wall's clock shows.
static WALL_MS: AtomicU64 = AtomicU64::new(50 * YEAR_MS);

fn wall_ms() -> u64 {
    WALL_MS.load(Ordering::Relaxed)
}

async fn begin(cluster: &mut Cluster, name: &str) -> (Vec<u8>, proto::CommitPutRequest) {
    let begin =
        proto::BeginPutRequest { name: name.to_owned(), block_bytes: 4_000, replicas: 3, gathers: None };
    let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
    let plan = cluster.client.plan_write(write_request(&put, 0, b"bytes", true)).await.unwrap();
    let staged = cluster.world.run(&plan.into_inner().plan.unwrap(), b"bytes", 0).unwrap().staged;
    let blocks = vec![written(&staged)];
    let digest = blake3::hash(b"bytes").as_bytes().to_vec();
    (put.clone(), proto::CommitPutRequest { parities: Vec::new(), put, blocks, object_bytes: 5, digest })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_jumps_ends_no_grace_and_no_lease_and_keeps_none() {
    // Ahead: what is to stay for a minute stays.
    let slow = Settings { garbage_grace_ms: 60_000, put_lease_ms: 60_000, ..Settings::default() };
    let mut cluster = Cluster::dated(3, slow, wall_ms).await;
    cluster.put("gone", b"bytes").await.unwrap();
    cluster.delete("gone").await.unwrap();
    let (_, commit) = begin(&mut cluster, "pending").await;
    WALL_MS.fetch_add(YEAR_MS, Ordering::Relaxed);
    // After a restart too, when workers look at once.
    cluster.again().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(cluster.status().await.garbage, 3);
    let info = cluster.client.commit_put(commit).await.unwrap().into_inner();
    assert_eq!(info.version, 2);
    cluster.stop().await;

    // Back: what is to go after an instant goes.
    let hasty = Settings { garbage_grace_ms: 50, put_lease_ms: 200, ..Settings::default() };
    let mut cluster = Cluster::dated(3, hasty, wall_ms).await;
    cluster.put("gone", b"bytes").await.unwrap();
    let created_ms = cluster.lookup("gone").await.unwrap().created_unix_ms;
    assert_eq!(created_ms, wall_ms(), "people are told the wall's time");
    cluster.delete("gone").await.unwrap();
    let (_, commit) = begin(&mut cluster, "pending").await;
    WALL_MS.fetch_sub(40 * YEAR_MS, Ordering::Relaxed);
    cluster.until("the garbage and the put go", async |c| c.world.copies().is_empty()).await;
    assert_eq!(cluster.client.commit_put(commit).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lasts_as_long_as_it_is_renewed() {
    let settings = Settings { put_lease_ms: 600, garbage_grace_ms: 50, ..Settings::default() };
    let mut cluster = Cluster::new(3, settings).await;
    let (put, commit) = begin(&mut cluster, "renewed").await;
    let (idle, late) = begin(&mut cluster, "idle").await;
    for _ in 0..15 {
        cluster.client.renew_put(proto::RenewPutRequest { put: put.clone() }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.client.commit_put(commit.clone()).await.unwrap();
    assert_eq!(cluster.client.commit_put(late).await.unwrap_err().code(), Code::NotFound);
    let renewed = cluster.client.renew_put(proto::RenewPutRequest { put: idle }).await;
    assert_eq!(renewed.unwrap_err().code(), Code::NotFound);

    // For a lease the answer can be had again, and over a restart.
    let first = cluster.client.commit_put(commit.clone()).await.unwrap().into_inner();
    cluster.again().await.unwrap();
    assert_eq!(cluster.client.commit_put(commit.clone()).await.unwrap().into_inner(), first);
    cluster.until("it is forgotten", async |c| c.client.commit_put(commit.clone()).await.is_err()).await;
    assert_eq!(cluster.get("renewed").await.unwrap().0, b"bytes");
}
