//! Measures how fast a tree of files is stored and read back: `cargo bench -p cli --bench tree -- 49000` (`TMPDIR` says which disk).
//!
//! `put -r` and `get -r` beside 64 puts and gets at once of the client library with the same files, beside one command for each file, beside
//! `tar` into one object, and beside the disk: `cp -r`, and 64 threads that write and sync each file. The tree is drawn from a seed: 7.7 KiB
//! on average, a hundred files to a folder.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use client::{Client, GetOptions, PutOptions};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const FILES: usize = 49_000;
const MEAN_BYTES: f64 = 7_900.0;
const LONGEST: f64 = 400_000.0;
const IN_A_FOLDER: usize = 100;
const AT_ONCE: usize = 64;
const NODES: &str = "6";
/// Files of the commands one by one.
const ONE_BY_ONE: usize = 300;
/// Each measurement is made so often, in turn with the others; the best counts.
const ROUNDS: usize = 2;

fn main() {
    let files = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(FILES);
    let folder = std::env::temp_dir().join(format!("stripeline-tree-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let bench = Bench { names: tree(&folder.join("tree"), files), folder };
    bench.ok(&["cluster", "up", "--nodes", NODES]);
    bench.all();
    bench.ok(&["cluster", "down"]);
    fs::remove_dir_all(&bench.folder).unwrap();
}

struct Bench {
    folder: PathBuf,
    /// Paths of all files, relative to the tree's folder.
    names: Vec<String>,
}

/// Makes the tree, and returns the names of its files.
fn tree(at: &Path, files: usize) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(47);
    let mut bytes = 0;
    let name = |file: usize| format!("folder-{}/file-{file}", file / IN_A_FOLDER);
    for file in 0..files {
        let share: f64 = random.random_range(f64::EPSILON..1.0);
        let mut content = vec![0; (-share.ln() * MEAN_BYTES).min(LONGEST) as usize];
        random.fill_bytes(&mut content);
        bytes += content.len();
        let path = at.join(name(file));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    println!("{files} files, {} MiB", bytes >> 20);
    (0..files).map(name).collect()
}

impl Bench {
    fn all(&self) {
        let (tree, out) = (self.folder.join("tree"), self.folder.join("out"));
        let (tree, out) = (tree.to_str().unwrap(), out.to_str().unwrap());
        let [mut put, mut library_put, mut get, mut library_get] = [f64::MAX; 4];
        for round in 0..ROUNDS {
            let prefix = |of: &str| format!("{of}-{round}/");
            library_put = library_put.min(self.library(&prefix("library"), true));
            put = put.min(took(|| drop(self.ok(&["put", "-r", tree, &prefix("tree")]))));
            library_get = library_get.min(self.library(&prefix("library"), false));
            get = get.min(took(|| drop(self.ok(&["get", "-r", &prefix("tree"), out]))));
            self.same(out);
        }
        let some = &self.names[..self.names.len().min(ONE_BY_ONE)];
        let each = |act: &dyn Fn(&str, &str)| {
            took(|| some.iter().for_each(|name| act(&format!("{tree}/{name}"), &format!("one/{name}"))))
                / some.len() as f64
                * self.names.len() as f64
        };
        let one_put = each(&|path, name| drop(self.ok(&["put", path, name])));
        let target = self.folder.join("one");
        let one_get = each(&|_, name| drop(self.ok(&["get", name, target.to_str().unwrap()])));
        let tar = took(|| self.tar());
        let copy = took(|| copy_tree(tree, &self.folder.join("copy")));
        let synced = took(|| self.synced());
        let row = |what: &str, seconds: f64, beside: f64, one: f64| {
            let rate = self.names.len() as f64 / seconds;
            println!(
                "{what:28} {seconds:8.1} s {rate:9.0} files/s {:10.2} {:10.1}",
                beside / seconds,
                one / seconds
            );
        };
        println!("{:28} {:>10} {:>17} {:>10} {:>10}", "", "", "", "÷ library", "÷ one by one");
        row("put -r", put, library_put, one_put);
        row("library, 64 puts at once", library_put, library_put, one_put);
        row("one put after the other", one_put, library_put, one_put);
        row("tar | put", tar, library_put, one_put);
        row("get -r", get, library_get, one_get);
        row("library, 64 gets at once", library_get, library_get, one_get);
        row("one get after the other", one_get, library_get, one_get);
        row("cp -r", copy, library_put, one_put);
        row("64 threads, each file synced", synced, library_put, one_put);
    }

    /// All files by the library, 64 at once.
    fn library(&self, prefix: &str, puts: bool) -> f64 {
        let ready: serde_json::Value =
            serde_json::from_slice(&fs::read(self.folder.join("home/coordinator/ready.json")).unwrap())
                .unwrap();
        let address = ready["control"].as_str().unwrap();
        let target = self.folder.join("library");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        took(|| {
            runtime.block_on(async {
                let client = Client::connect(address).await.unwrap();
                let (room, mut all) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
                for name in &self.names {
                    let permit = Arc::clone(&room).acquire_owned().await.unwrap();
                    let (client, object) = (client.clone(), format!("{prefix}{name}"));
                    let (from, to) = (self.folder.join("tree").join(name), target.join(name));
                    all.spawn(async move {
                        if puts {
                            client
                                .put(&object, File::open(from).unwrap(), PutOptions::default())
                                .await
                                .unwrap();
                        } else {
                            fs::create_dir_all(to.parent().unwrap()).unwrap();
                            client.get_to_file(&object, &to, GetOptions::default()).await.unwrap();
                        }
                        drop(permit);
                    });
                    while all.try_join_next().is_some_and(|done| done.map(|()| true).unwrap()) {}
                }
                while all.join_next().await.is_some_and(|done| done.map(|()| true).unwrap()) {}
            });
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stripeline"));
        command.args(arguments).env("STRIPELINE_HOME", self.folder.join("home")).stdin(Stdio::null());
        command
    }

    fn ok(&self, arguments: &[&str]) -> Vec<u8> {
        let done = self.command(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    }

    /// Checks that the files read back equal the files stored, and removes them.
    fn same(&self, out: &str) {
        for name in &self.names {
            assert!(
                fs::read(Path::new(out).join(name)).unwrap()
                    == fs::read(self.folder.join("tree").join(name)).unwrap()
            );
        }
        fs::remove_dir_all(out).unwrap();
    }

    fn tar(&self) {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&self.folder).args(["-cf", "-", "tree"]).stdout(Stdio::piped());
        let mut tar = tar.spawn().unwrap();
        let stored = self.command(&["put", "-", "tar"]).stdin(tar.stdout.take().unwrap()).output().unwrap();
        assert!(tar.wait().unwrap().success() && stored.status.success());
    }

    fn synced(&self) {
        std::thread::scope(|scope| {
            for names in self.names.chunks(self.names.len().div_ceil(AT_ONCE)) {
                scope.spawn(move || {
                    for name in names {
                        let to = self.folder.join("synced").join(name);
                        fs::create_dir_all(to.parent().unwrap()).unwrap();
                        let mut file = File::create(to).unwrap();
                        file.write_all(&fs::read(self.folder.join("tree").join(name)).unwrap()).unwrap();
                        file.sync_all().unwrap();
                    }
                });
            }
        });
    }
}

fn copy_tree(from: &str, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}

fn took(act: impl FnOnce()) -> f64 {
    let began = Instant::now();
    act();
    began.elapsed().as_secs_f64()
}
