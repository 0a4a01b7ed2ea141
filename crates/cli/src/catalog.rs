//! `stripeline catalog`: backing up the coordinator's memory, and getting it back.

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
    /// list the rest; or, with a file, make the catalog of a coordinator from a backup: --dir is then its folder, or the local
    /// cluster's
    Recover {
        /// Backup to read; - for standard input
        file: Option<PathBuf>,
    },
    /// Take the catalog's history as it is, though a node has heard of changes that it does not know: what became superfluous
    /// may go again. Copies of which nothing is known stay
    EndSafeMode,
}

pub fn run(context: &Context, command: CatalogCommand) -> Result<()> {
    match command {
        CatalogCommand::Backup { file } => backup(context, &file),
        CatalogCommand::Recover { file: Some(file) } => restore(context, &file),
        CatalogCommand::Recover { file: None } => recover(context),
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

fn recover(context: &Context) -> Result<()> {
    let reply = context.with_client(async |client| Ok(client.recover_catalog().await?))?;
    let incomplete = reply.incomplete.iter().map(|v| (v.name.as_str(), v.version)).collect::<Vec<_>>();
    let newer = reply.newer.iter().map(|v| (v.name.as_str(), v.version)).collect::<Vec<_>>();
    let versions = |list: &[(&str, u64)]| {
        list.iter().map(|(name, version)| json!({"name": name, "version": version})).collect::<Vec<_>>()
    };
    let mut document = fields!(reply => objects blocks stripes away safe_mode);
    document["incomplete"] = versions(&incomplete).into();
    document["newer"] = versions(&newer).into();
    context.out.answer(&document, || {
        let mut said = format!(
            "{} objects, {} blocks, {} stripes found on the nodes that the catalog knew nothing of",
            reply.objects, reply.blocks, reply.stripes
        );
        for (list, what) in [
            (&incomplete, "lacks blocks, and is left out"),
            (&newer, "is newer than the version that stands, and is left as it is"),
        ] {
            for (name, version) in list {
                said.push_str(&format!("\n'{name}' version {version}: {what}"));
            }
        }
        for node in &reply.away {
            said.push_str(&format!("\nnode-{node} is away: it was not asked"));
        }
        if !reply.safe_mode.is_empty() {
            said.push_str(&format!(
                "\nnothing is let go: {}; once all of it is settled, run it again, or 'stripeline catalog end-safe-mode'",
                reply.safe_mode
            ));
        }
        said
    })
}
