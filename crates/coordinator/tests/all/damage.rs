//! The catalog's own file is damaged: bits flip, pages hold what they held before. No copy is deleted for it, no wrong byte is read, what
//! is damaged is named, and the file is made anew from what nodes keep.
//!
//! `STRIPELINE_DAMAGE_TRIALS=500,200 STRIPELINE_DAMAGE_SEED=1 cargo test -p coordinator --test all damage` tries so many bits and pages.

use crate::support::world::{Saved, World};
use crate::support::{BLOCK_BYTES, Cluster, Settings};
use catalog::damaged_files;
use disk::{CrashDisk, Disk, PageDamage, PageVisitor, PowerSwitch, SyncPoint, walk_pages};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tonic::Code;
use wire::proto;

const FILE: &str = "catalog.redb";
const PAGE_BYTES: usize = 4096;
const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

/// A cluster whose coordinator has ended well, twice.
struct Scene {
    world: Arc<World>,
    saved: Saved,
    /// The file after the first of the ends, and after the second.
    earlier: Vec<u8>,
    file: Vec<u8>,
    objects: Vec<(String, Vec<u8>)>,
    removed: Vec<String>,
    copies: Vec<(u32, Vec<u8>)>,
}

fn content(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect()
}

fn file_of(disk: &CrashDisk) -> Vec<u8> {
    let file = disk.open(Path::new(FILE)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

async fn remove(cluster: &mut Cluster, name: &str) {
    let request = proto::LookupRequest { name: name.to_owned(), ..Default::default() };
    cluster.client.delete(request).await.unwrap();
}

impl Scene {
    /// Replicated, coded, overwritten and removed objects; a put that has not ended; nothing that is to go.
    async fn new() -> Scene {
        let mut cluster = Cluster::new(8, HASTY).await;
        let (mut objects, mut removed) = (BTreeMap::new(), Vec::new());
        for life in 0..2u8 {
            for index in 0..12u8 {
                let name = format!("object-{}", life * 8 + index);
                let bytes = content(life * 100 + index, BLOCK_BYTES as usize * usize::from(index % 3) + 100);
                cluster.put(&name, &bytes).await.unwrap();
                objects.insert(name, bytes);
            }
            let (coded, gone) = (format!("coded-{life}"), format!("gone-{life}"));
            let bytes = content(life, 7 * BLOCK_BYTES as usize);
            for name in [&coded, &gone] {
                cluster.put(name, &bytes).await.unwrap();
                cluster.archive(name, "rs-4+2").await.unwrap();
            }
            remove(&mut cluster, &gone).await;
            objects.insert(coded, bytes);
            removed.push(gone);
            cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
            if life == 0 {
                cluster = cluster.restart().await;
            }
        }
        // One more life, in which rows of each kind change.
        cluster.stop().await;
        let earlier = file_of(&cluster.disk);
        let mut cluster = cluster.restart().await;
        for index in 0..6u8 {
            let (name, bytes) = (format!("object-{index}"), content(200 + index, 5_000));
            cluster.put(&name, &bytes).await.unwrap();
            objects.insert(name, bytes);
        }
        remove(&mut cluster, "object-7").await;
        objects.remove("object-7");
        removed.push("object-7".to_owned());
        cluster.archive("object-8", "rs-4+2").await.unwrap();
        cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
        cluster.stop().await;
        let (world, file) = (Arc::clone(&cluster.world), file_of(&cluster.disk));
        let (saved, copies) = (world.save(), world.copies());
        Scene { world, saved, earlier, file, objects: objects.into_iter().collect(), removed, copies }
    }

    /// The coordinator starts over this file. Returns whether what nodes keep took the place of it.
    async fn try_with(&self, file: &[u8], what: &str) -> bool {
        self.world.restore(&self.saved);
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        write(&disk, file);
        let mut cluster = Cluster::on(power, disk.clone(), Arc::clone(&self.world), HASTY)
            .await
            .unwrap_or_else(|error| panic!("{what}: it does not start: {error}"));
        let readable = self.read(&mut cluster, what).await;
        // When the database gives up on its file, counting fails: that is an error, and the cluster does not report itself well.
        let health = cluster.client.get_health(proto::Empty {}).await;
        if health.is_ok_and(|health| is_well(health.get_ref())) {
            assert_eq!(
                self.read(&mut cluster, what).await,
                self.objects.len(),
                "{what}: health says that all is well"
            );
        }
        // Longer than the grace: what is to go on a wrong word would go now.
        cluster.collect().await;
        assert_eq!(
            self.world.copies(),
            self.copies,
            "{what}: a copy was deleted, at {readable} readable objects"
        );
        let is_over = async |c: &mut Cluster| match c.client.get_health(proto::Empty {}).await {
            Ok(health) => is_well(&health.into_inner()),
            Err(_) => false,
        };
        cluster.until(&format!("{what}: safe mode ends by itself"), is_over).await;
        assert_eq!(self.read(&mut cluster, what).await, self.objects.len(), "{what}: in the end");
        cluster.collect().await;
        assert_eq!(self.world.copies(), self.copies, "{what}: a copy was deleted in the end");
        cluster.stop().await;
        !damaged_files(&disk).unwrap().is_empty()
    }

    /// Reads everything; returns how many objects can be read. What is read is right, and nothing is called absent that is not.
    async fn read(&self, cluster: &mut Cluster, what: &str) -> usize {
        let mut readable = 0;
        for (name, bytes) in &self.objects {
            match cluster.get(name).await {
                Ok((read, _)) => {
                    assert!(read == *bytes, "{what}: wrong bytes of {name}");
                    readable += 1;
                }
                Err(status) => assert_ne!(status.code(), Code::NotFound, "{what}: {name}: {status}"),
            }
        }
        for name in &self.removed {
            assert!(cluster.get(name).await.is_err(), "{what}: {name} is back");
        }
        readable
    }
}

fn write(disk: &CrashDisk, bytes: &[u8]) {
    let file = disk.create_new(Path::new(FILE)).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    disk.sync_folder(Path::new(""), SyncPoint::CatalogFolder).unwrap();
}

/// What `stripeline health` ends with 0 for, in these tests.
fn is_well(health: &proto::HealthReply) -> bool {
    health.safe_mode.is_empty() && health.unreadable_objects == 0
}

/// Keys and rows of a table, as they are stored.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// What stands in a file, and what of it is damaged.
#[derive(Default)]
struct Seen {
    rows: BTreeMap<String, Rows>,
    damage: Vec<PageDamage>,
}

impl PageVisitor for Seen {
    fn row(&mut self, table: &str, key: &[u8], value: &[u8], _: bool) {
        self.rows.entry(table.to_owned()).or_default().push((key.to_vec(), value.to_vec()));
    }

    fn damage(&mut self, damage: PageDamage) {
        self.damage.push(damage);
    }
}

fn seen(file: &[u8]) -> Seen {
    let disk = CrashDisk::new(&PowerSwitch::new());
    write(&disk, file);
    let mut seen = Seen::default();
    walk_pages(&disk, Path::new(FILE), &mut seen).unwrap();
    seen
}

/// A number below `bound`, by a seed and a count: the same in every run.
fn draw(seed: &mut u64, bound: usize) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
}

/// A bit anywhere in the file.
fn any_bit(file: &[u8], seed: &mut u64) -> (Vec<u8>, String) {
    let (at, bit) = (draw(seed, file.len()), draw(seed, 8));
    let mut file = file.to_vec();
    file[at] ^= 1 << bit;
    (file, format!("bit {bit} of byte {at}"))
}

/// A bit of a row as it stands: first a table is drawn, then a row of it, then a bit of its key or value.
fn bit_of_row(file: &[u8], rows: &Seen, seed: &mut u64) -> (Vec<u8>, String) {
    loop {
        let table = rows.rows.keys().nth(draw(seed, rows.rows.len())).unwrap();
        let of_table = &rows.rows[table];
        let (key, value) = &of_table[draw(seed, of_table.len())];
        let bit = draw(seed, (key.len() + value.len()) * 8);
        let (part, bit) = if bit < key.len() * 8 { (key, bit) } else { (value, bit - key.len() * 8) };
        // The part stands in older pages too, and in other rows: the place is the one that is the table's.
        for at in (0..=file.len() - part.len()).filter(|at| file[*at..].starts_with(part)) {
            let mut damaged = file.to_vec();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            if seen(&damaged).damage.iter().any(|damage| damage.tree == format!("table {table}")) {
                return (damaged, format!("bit {bit} of a row of {table}"));
            }
        }
    }
}

/// A page that holds what it held when the coordinator ended before.
fn stale_page(file: &[u8], earlier: &[u8], seed: &mut u64) -> (Vec<u8>, String) {
    let pages = file.len().min(earlier.len()) / PAGE_BYTES;
    let range = |page: usize| page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
    let changed: Vec<usize> = (0..pages).filter(|page| file[range(*page)] != earlier[range(*page)]).collect();
    let page = changed[draw(seed, changed.len())];
    let mut file = file.to_vec();
    file[range(page)].copy_from_slice(&earlier[range(page)]);
    (file, format!("page {page} as it was before"))
}

/// How many bits and pages are tried, and by which seed.
fn trials() -> (usize, usize, u64) {
    let told = |name: &str| std::env::var(name).ok();
    let seed = told("STRIPELINE_DAMAGE_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let counts = told("STRIPELINE_DAMAGE_TRIALS").and_then(|counts| {
        let (bits, pages) = counts.split_once(',')?;
        Some((bits.parse().ok()?, pages.parse().ok()?))
    });
    let (bits, pages) = counts.unwrap_or((16, 6));
    (bits, pages, seed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_deletes_nothing_and_is_made_anew() {
    let scene = Scene::new().await;
    assert!(!scene.try_with(&scene.file, "nothing is damaged").await);
    let (bits, pages, mut seed) = trials();
    let rows = seen(&scene.file);
    let (mut in_use, mut renewed) = (0, 0);
    for trial in 0..bits + pages {
        let (file, what) = match trial {
            trial if trial >= bits => stale_page(&scene.file, &scene.earlier, &mut seed),
            trial if trial % 2 == 0 => any_bit(&scene.file, &mut seed),
            _ => bit_of_row(&scene.file, &rows, &mut seed),
        };
        let damage = seen(&file).damage;
        let what = format!(
            "trial {trial}, {what}, in {:?}",
            damage.iter().map(|damage| &damage.tree).collect::<Vec<_>>()
        );
        let is_renewed = scene.try_with(&file, &what).await;
        // A page that only the database needs for its next commit may be written anew by that, before it is looked at.
        let is_of_rows = damage.iter().any(|damage| damage.tree.starts_with("table "));
        assert!(is_renewed || !is_of_rows, "{what}: the damage was not noticed");
        in_use += usize::from(!damage.is_empty());
        renewed += usize::from(is_renewed);
    }
    println!("{bits} bits, {pages} pages: {in_use} damaged pages in use, {renewed} files made anew");
    assert!(in_use >= bits / 2, "half of the bits are those of rows");
}
