//! A small library between daemons and the C library (`shim/shim.c`): it moves the wall's clock, fails reads and writes of files
//! of blocks, and takes permissions away, which root has whatever the files say. It is compiled where a plan needs it; each
//! daemon is steered by numbers in a file of its own, which it maps, so that a fault holds over restarts.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("shim/shim.c");

/// Where a daemon finds its numbers: a path in its environment.
const CONTROL: &str = "STRIPELINE_CHAOS_CONTROL";

/// The file of numbers, in a daemon's folder; nothing copies it with what the daemon stores.
const FILE: &str = "shim";

/// A page: what is mapped is there.
const FILE_BYTES: u64 = 4096;

/// The numbers, in the order of the C library's struct.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// By so many milliseconds the wall's clock is wrong.
    ClockMs,
    /// So many of a thousand blocks cannot be read.
    ReadPermille,
    /// Which ones.
    ReadDraw,
    /// Their data (1), their sidecars (2), or both.
    ReadFiles,
    /// So many of a thousand files cannot be written.
    WritePermille,
    /// Which ones.
    WriteDraw,
    /// Nothing of blocks may be opened, listed, renamed or removed.
    NoPermission,
    /// Permille of block folders in which nothing may be opened, listed, renamed or removed.
    FolderPermille,
    /// Draw that selects the folders.
    FolderDraw,
    /// The error for these folders.
    FolderErrno,
    /// Permille of blocks whose files cannot be opened.
    OpenPermille,
    /// Draw that selects the blocks.
    OpenDraw,
    /// The error for these files.
    OpenErrno,
}

/// Input/output error.
pub const EIO: i64 = 5;

/// Permission denied.
pub const EACCES: i64 = 13;

/// The library, compiled.
#[derive(Debug)]
pub struct Shim {
    library: PathBuf,
}

impl Shim {
    /// Compiles it into a folder. `None` where there is no C compiler, or none that makes one that a program takes.
    pub fn build(folder: &Path) -> Result<Option<Shim>> {
        let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
        fs::write(&source, SOURCE)?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let built = cc.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(built.is_ok_and(|status| status.success()).then_some(Shim { library }))
    }

    /// A process of this command has it, and is steered by a file in `folder`.
    pub fn steer(&self, command: &mut Command, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        file.set_len(FILE_BYTES)?;
        command.env("LD_PRELOAD", &self.library).env(CONTROL, path);
        Ok(())
    }
}

/// Sets numbers of the daemon with this folder, at once.
pub fn set(folder: &Path, numbers: &[(Number, i64)]) -> Result<()> {
    let path = folder.join(FILE);
    let file = File::options().write(true).open(&path).with_context(|| format!("no {}", path.display()))?;
    for &(number, value) in numbers {
        file.write_all_at(&value.to_ne_bytes(), number as u64 * 8)?;
    }
    Ok(())
}

/// Whether the library's draw hits a name: FNV-1a, like `is_drawn` in C.
pub fn is_drawn(name: &str, draw: u64, permille: u32) -> bool {
    let bytes = name.bytes().chain(draw.to_le_bytes());
    let hash = bytes.fold(14_695_981_039_346_656_037_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    });
    (hash >> 16) % 1000 < u64::from(permille)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What `program` says and whether it ended well, while these numbers hold.
    fn ran(shim: &Shim, folder: &Path, numbers: &[(Number, i64)], program: &[&str]) -> (String, bool) {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).env("LC_ALL", "C");
        shim.steer(&mut command, folder).unwrap();
        set(folder, numbers).unwrap();
        let ran = command.output().unwrap();
        set(folder, &numbers.iter().map(|(number, _)| (*number, 0)).collect::<Vec<_>>()).unwrap();
        (String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(), ran.status.success())
    }

    #[test]
    fn the_shim_moves_the_clock_and_fails_what_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let Some(shim) = Shim::build(folder.path()).unwrap() else { return };
        let id = "00112233445566778899aabbccddeeff";
        let blocks = folder.path().join("data/blocks/00");
        fs::create_dir_all(&blocks).unwrap();
        let [data, sidecar] = [format!("{id}.1"), format!("{id}.1.meta")].map(|name| blocks.join(name));
        for path in [&data, &sidecar] {
            fs::write(path, b"x").unwrap();
        }
        let head = |path: &Path, numbers: &[(Number, i64)]| {
            ran(&shim, folder.path(), numbers, &["head", "-c1", path.to_str().unwrap()])
        };
        let seconds = |by_ms| {
            let (said, _) = ran(&shim, folder.path(), &[(Number::ClockMs, by_ms)], &["date", "+%s"]);
            said.trim().parse::<i64>().unwrap()
        };
        let now = seconds(0);
        assert!((now - 86_402..now - 86_398 + 60).contains(&seconds(-86_400_500)));
        assert!((now + 3_600..now + 3_660).contains(&seconds(3_600_000)));

        let all_data = [(Number::ReadPermille, 1000), (Number::ReadFiles, 1)];
        assert_eq!(head(&data, &[]), ("x".to_owned(), true));
        let (said, ended_well) = head(&data, &all_data);
        assert!(!ended_well && said.contains("Input/output error"), "{said}");
        assert!(head(&sidecar, &all_data).1, "data alone");
        assert!(!head(&sidecar, &[(Number::ReadPermille, 1000), (Number::ReadFiles, 2)]).1);
        assert!(head(&folder.path().join("shim.c"), &all_data).1, "blocks alone");
        let (said, ended_well) = head(&data, &[(Number::NoPermission, 1)]);
        assert!(!ended_well && said.contains("Permission denied"), "{said}");
        let refused = |permille, errno| {
            [(Number::OpenPermille, permille), (Number::OpenDraw, 0), (Number::OpenErrno, errno)]
        };
        assert!(!head(&data, &refused(1000, EACCES)).1 && !head(&sidecar, &refused(1000, EIO)).1);
        assert!(head(&folder.path().join("shim.c"), &refused(1000, EIO)).1, "blocks alone");
        for draw in 0..40 {
            let numbers = [(Number::OpenPermille, 500), (Number::OpenDraw, draw), (Number::OpenErrno, EIO)];
            assert_eq!(head(&data, &numbers).1, !is_drawn(id, draw.cast_unsigned(), 500), "{draw}");
        }
        let list = |path: &Path, permille, errno| {
            let numbers = [(Number::FolderPermille, permille), (Number::FolderErrno, errno)];
            ran(&shim, folder.path(), &numbers, &["ls", path.to_str().unwrap()])
        };
        let (said, ended_well) = list(&blocks, 1000, EIO);
        assert!(!ended_well && said.contains("Input/output error"), "{said}");
        let above = blocks.parent().unwrap();
        assert!(!list(above, 1000, EACCES).1 && list(above, 999, EACCES).1, "all of them, or some");
        assert!(list(&blocks, 0, EIO).1);
        let copy = blocks.join("ffeeddccbbaa99887766554433221100.1");
        let write = |numbers: &[(Number, i64)]| {
            let program = format!("echo y > {}", copy.display());
            ran(&shim, folder.path(), numbers, &["sh", "-c", &program])
        };
        assert!(write(&[]).1 && !write(&[(Number::WritePermille, 1000)]).1);
        assert!(head(&data, &[]).1, "all is well again");
    }
}
