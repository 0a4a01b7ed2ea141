//! `stripeline catalog check`: whether a catalog's file, or a backup of one, is as it was written. No cluster is needed, and the file
//! is only read.

use crate::context::Context;
use crate::health::Verdict;
use crate::local::{Home, folder_of};
use crate::output::fields;
use anyhow::{Context as _, Result, anyhow, bail};
use coordinator::{Examined, FileKind, Touched, examine};
use disk::{Disk, RealDisk};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something is damaged.
const DAMAGED: u8 = 3;

/// The catalog's file in the folder of its coordinator.
const FILE: &str = "catalog.redb";

pub fn run(context: &Context, path: &Path) -> Result<()> {
    // The database below the copy may panic over it, which is told as damage.
    coordinator::quiet_panics();
    let file = file_of(path)?;
    let shown = file.display();
    let (folder, name) = (file.parent(), file.file_name());
    let (Some(folder), Some(name)) = (folder, name) else { bail!("{shown} is no file") };
    let from = RealDisk::open(folder)?;
    // It goes with all that is in it, also after an error.
    let scratch = tempfile::Builder::new()
        .prefix("stripeline-check-")
        .tempdir()
        .with_context(|| format!("cannot make a folder in {}", std::env::temp_dir().display()))?;
    let copy: Arc<dyn Disk> = Arc::new(RealDisk::open(scratch.path())?);
    let examined = examine(&from, Path::new(name), &copy).with_context(|| format!("cannot check {shown}"))?;
    scratch.close().context("cannot remove the copy")?;
    context.out.answer(&document(&file, &examined), || text(&file, &examined))?;
    match examined.damage.count {
        0 => Ok(()),
        count => Err(Verdict::new(format!("{shown} is damaged: {}", findings(count)), DAMAGED).into()),
    }
}

/// The file that is meant: itself, or the catalog in the folder of a coordinator or of a local cluster.
fn file_of(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let metadata =
        std::fs::metadata(&path).map_err(|error| anyhow!("cannot read {}: {error}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(path);
    }
    let daemon = folder_of(&path).data();
    let cluster = Home::locate(Some(path.clone()))?.coordinator().data();
    let folders = [path.clone(), daemon, cluster];
    let found = folders.iter().map(|folder| folder.join(FILE)).find(|file| file.is_file());
    found.ok_or_else(|| {
        anyhow!(
            "no {FILE} is in {}: give a coordinator's folder, a local cluster's, or a file",
            path.display()
        )
    })
}

fn findings(count: u64) -> String {
    format!("{count} {}", if count == 1 { "finding" } else { "findings" })
}

fn document(file: &Path, examined: &Examined) -> Value {
    let touched = |touched: &Touched| json!({"name": touched.name, "readable": touched.is_readable});
    let objects: Vec<Value> = examined.touched.iter().map(touched).collect();
    fields!(examined => format rows has_checksums;
        "path": file, "kind": kind(examined.kind), "sound": examined.is_sound(),
        "findings": examined.damage.count, "told": examined.damage.findings,
        "objects": objects, "other_objects": examined.others,
        "in_use": examined.is_in_use, "changed_meanwhile": examined.has_moved)
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Catalog => "catalog",
        FileKind::Backup => "backup",
    }
}

fn text(file: &Path, examined: &Examined) -> String {
    let Examined { kind: of, format, rows, has_checksums, damage, touched, others, is_in_use, has_moved } =
        examined;
    let format =
        format.map_or_else(|| "of an unreadable format".to_owned(), |format| format!("format {format}"));
    let what = match damage.count {
        0 => "sound".to_owned(),
        count => findings(count),
    };
    let mut lines = vec![format!("{}: {} {format}, {rows} rows pass: {what}", file.display(), kind(*of))];
    lines.extend(damage.findings.iter().map(|finding| format!("damaged: {finding}")));
    let untold = damage.count - damage.findings.len() as u64;
    if untold > 0 {
        lines.push(format!("damaged: {untold} more are not listed"));
    }
    lines.extend(touched.iter().map(|Touched { name, is_readable }| match is_readable {
        true => format!("object '{name}' can be read, but a stripe of it cannot be repaired by this catalog"),
        false => format!("object '{name}' cannot be read by this catalog"),
    }));
    if *others > 0 {
        lines.push(format!("{others} more objects are touched and not listed"));
    }
    if !has_checksums {
        let whole = match of {
            FileKind::Catalog => "each page was checked",
            FileKind::Backup => "the backup was checked as a whole",
        };
        lines.push(format!("rows of this format have no checksums of their own yet: {whole}"));
    }
    if *is_in_use {
        lines.push("a coordinator has this file open: this is how it was a moment ago".to_owned());
    }
    if *has_moved {
        lines.push(
            "it was changed during each reading, so some of this may be no damage: 'stripeline health' says what its coordinator found"
                .to_owned(),
        );
    }
    lines.join("\n")
}
