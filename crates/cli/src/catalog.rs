//! `stripeline catalog`: backing up the coordinator's memory, checking it, and getting it back.

mod check;

use crate::amount::Size;
use crate::context::Context;
use crate::local::{Home, folder_of};
use crate::output::{closed, fields};
use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use disk::{Disk, RealDisk};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do with the catalog.
#[derive(Subcommand, Debug)]
pub enum CatalogCommand {
    /// Write a consistent copy of the catalog to a file, while the cluster runs
    Backup {
        /// File to write; - for standard output
        file: PathBuf,
    },
    /// Take from what nodes have whatever the catalog's history knows nothing of, for names that have no other version, and
    /// list the rest with the commands that decide it; or, with a file, make the catalog of a coordinator from a backup: --dir is
    /// then its folder, or the local cluster's
    Recover {
        /// Backup to read; - for standard input
        #[arg(conflicts_with_all = ["take", "drop"])]
        file: Option<PathBuf>,
        /// Take this version, which must be whole, in place of the one that its name has; several times for several
        #[arg(long, value_name = "NAME@VERSION", value_parser = version)]
        take: Vec<Version>,
        /// Give this version up: its copies become superfluous, and go as those of a removed object do
        #[arg(long, value_name = "NAME@VERSION", value_parser = version)]
        drop: Vec<Version>,
    },
    /// Check a catalog's file, or a backup of it, offline: each page, row and reference. The file is only read. Ends with 0 if it is
    /// sound, 3 if something is damaged, and says which objects that touches
    Check {
        /// A catalog's file, a backup, or the folder of a coordinator or of a local cluster
        path: PathBuf,
    },
    /// Take the catalog's history as it is, though a node has heard of changes that it does not know: what became superfluous
    /// may go again. Copies of which nothing is known stay
    EndSafeMode,
}

pub fn run(context: &Context, command: CatalogCommand) -> Result<()> {
    match command {
        CatalogCommand::Backup { file } => backup(context, &file),
        CatalogCommand::Recover { file: Some(file), .. } => restore(context, &file),
        CatalogCommand::Recover { file: None, take, drop } => recover(context, &take, &drop),
        CatalogCommand::Check { path } => check::run(context, &path),
        CatalogCommand::EndSafeMode => {
            context.with_client(async |client| Ok(client.end_safe_mode().await?))?;
            context
                .out
                .answer(&json!({"safe_mode": false}), || "what became superfluous may go again".to_owned())
        }
    }
}

fn backup(context: &Context, file: &Path) -> Result<()> {
    if file == Path::new("-") {
        return context.with_client(async |client| {
            let mut chunks = client.backup_catalog().await?;
            while let Some(chunk) = chunks.next().await? {
                io::stdout().write_all(&chunk.bytes).map_err(closed)?;
            }
            io::stdout().flush().map_err(closed)
        });
    }
    let failed = || format!("cannot write {}", file.display());
    // Half a backup must not stand under the name of a whole one, nor replace an older whole one.
    let partial = file.with_extension("partial");
    let result = context.with_client(async |client| {
        let mut chunks = client.backup_catalog().await?;
        let mut output = File::create(&partial).with_context(failed)?;
        let mut bytes = 0;
        while let Some(chunk) = chunks.next().await? {
            output.write_all(&chunk.bytes).with_context(failed)?;
            bytes += chunk.bytes.len() as u64;
        }
        output.sync_all().with_context(failed)?;
        fs::rename(&partial, file).with_context(failed)?;
        Ok(bytes)
    });
    if result.is_err() {
        let _ = fs::remove_file(&partial);
    }
    let bytes = result?;
    context.out.answer(&json!({"file": file, "bytes": bytes}), || {
        format!("catalog backed up: {} in {}", Size(bytes), file.display())
    })
}

fn restore(context: &Context, file: &Path) -> Result<()> {
    let mut backup = Vec::new();
    if file == Path::new("-") {
        io::stdin().read_to_end(&mut backup).context("cannot read the backup")?;
    } else {
        backup = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    // The folder of a local cluster stands for its coordinator's.
    let home = Home::locate(context.dir.clone())?;
    let folder = if home.cluster()?.is_some() { home.coordinator() } else { folder_of(home.path()) };
    if context.dir.is_none() && home.cluster()?.is_none() {
        bail!("give --dir, the folder of the coordinator whose catalog is to be made");
    }
    if folder.running()?.is_some() {
        bail!("the coordinator runs; end it first ('stripeline cluster down')");
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.data())?);
    coordinator::restore(&disk, &backup)?;
    context.out.answer(&json!({"dir": folder.path(), "bytes": backup.len()}), || {
        format!(
            "catalog made in {}; start the coordinator, its nodes will register again",
            folder.path().display()
        )
    })
}

/// The name of an object, and a version of it.
type Version = (String, u64);

/// Of a name that has an @ in it the last one counts.
fn version(text: &str) -> std::result::Result<Version, String> {
    let parsed =
        text.rsplit_once('@').and_then(|(name, version)| Some((name.to_owned(), version.parse().ok()?)));
    let named = parsed.filter(|(name, _): &Version| !name.is_empty());
    named.ok_or_else(|| "a version is named such as photo.jpg@7".to_owned())
}

/// What was found, and what is left to decide.
struct Found {
    objects: u64,
    blocks: u64,
    stripes: u64,
    dropped_copies: u64,
    /// They lack blocks.
    incomplete: Vec<Version>,
    /// Whole, and newer than what stands.
    newer: Vec<Version>,
    /// Not newer than what stands, or over.
    older: Vec<Version>,
    /// They stand, though a catalog that is kept aside had removed them.
    removed: Vec<Version>,
    /// Nodes that were not asked.
    away: Vec<u32>,
    /// Why nothing is let go; empty if something is.
    safe_mode: String,
}

fn recover(context: &Context, take: &[Version], drop: &[Version]) -> Result<()> {
    let found = context.with_client(async |client| {
        let reply = client.recover_catalog(take, drop).await?;
        Ok(Found {
            objects: reply.objects,
            blocks: reply.blocks,
            stripes: reply.stripes,
            dropped_copies: reply.dropped_copies,
            incomplete: reply.incomplete.into_iter().map(|v| (v.name, v.version)).collect(),
            newer: reply.newer.into_iter().map(|v| (v.name, v.version)).collect(),
            older: reply.older.into_iter().map(|v| (v.name, v.version)).collect(),
            removed: reply.removed.into_iter().map(|v| (v.name, v.version)).collect(),
            away: reply.away,
            safe_mode: reply.safe_mode,
        })
    })?;
    let versions = |list: &[Version]| {
        list.iter().map(|(name, version)| json!({"name": name, "version": version})).collect::<Vec<_>>()
    };
    let mut document = fields!(found => objects blocks stripes dropped_copies away safe_mode);
    document["incomplete"] = versions(&found.incomplete).into();
    document["newer"] = versions(&found.newer).into();
    document["older"] = versions(&found.older).into();
    document["removed"] = versions(&found.removed).into();
    context.out.answer(&document, || found.text())
}

impl Found {
    /// For people: with the commands that decide what is left, each on a line of its own.
    fn text(&self) -> String {
        let Found { objects, blocks, stripes, dropped_copies, away, safe_mode, .. } = self;
        let mut lines = vec![format!(
            "{objects} objects, {blocks} blocks, {stripes} stripes found on the nodes that the catalog knew nothing of"
        )];
        if *dropped_copies > 0 {
            lines.push(format!("{dropped_copies} copies of the dropped versions are superfluous now"));
        }
        for (list, what, choices) in [
            (&self.incomplete, "lacks blocks on the nodes that live, and is left out", &["drop"][..]),
            (&self.newer, "is newer than the version that stands, and is left out", &["take", "drop"]),
            (
                &self.older,
                "is not newer than the version that stands, or was removed or never finished by a coordinator that nobody followed; it \
                 is kept, and holds nothing up",
                &["drop"],
            ),
        ] {
            for (name, version) in list {
                lines.push(format!("'{name}' version {version}: {what}"));
                let word = quoted(&format!("{name}@{version}"));
                lines.extend(
                    choices.iter().map(|choice| format!("  stripeline catalog recover --{choice} {word}")),
                );
            }
        }
        for (name, version) in &self.removed {
            lines.push(format!(
                "'{name}' version {version}: stands, though a coordinator that nobody followed had removed it; if it is to go"
            ));
            lines.push(format!("  stripeline rm {}", quoted(name)));
        }
        for node in away {
            lines.push(format!("node-{node} is away: it was not asked; start it, or give it up for good"));
            lines.push(format!("  stripeline node forget {node}"));
        }
        if !safe_mode.is_empty() {
            lines.push(format!("nothing is let go: {safe_mode}; {}", self.what_next()));
            lines.push("  stripeline catalog end-safe-mode".to_owned());
        }
        lines.join("\n")
    }

    fn what_next(&self) -> &'static str {
        if self.incomplete.is_empty() && self.newer.is_empty() && self.away.is_empty() {
            "nothing is left to decide here; if no other node has anything of this cluster, take its history as it is"
        } else {
            "once all of it is decided, recover again, or take the history as it is"
        }
    }
}

/// As a word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "@%+=:,./_-".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_as_the_listing_names_them() {
        for (name, version_of_it) in [("a", 1), ("b@2", 3), ("it's a file", u64::MAX)] {
            let named = format!("{name}@{version_of_it}");
            assert_eq!(version(&named), Ok((name.to_owned(), version_of_it)));
        }
        for bad in ["a", "a@", "a@b", "@1", "a@-1"] {
            assert!(version(bad).is_err(), "{bad}");
        }
        assert_eq!(quoted("a/b@1"), "a/b@1");
        assert_eq!(quoted("it's @1"), r"'it'\''s @1'");
    }
}
