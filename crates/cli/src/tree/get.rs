//! `stripeline get -r`: the objects below a prefix become files of a folder.

use super::names::{listed_in, path_of};
use super::{Done, Listed, Refused, Tally, TreeArgs, digest_of, folder_prefix, listed};
use crate::context::Context;
use anyhow::{Context as _, Result};
use client::{Client, GetOptions};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Gets the objects below a prefix.
pub fn get(
    context: &Context,
    prefix: &str,
    folder: &Path,
    (args, options): (&TreeArgs, &GetOptions),
) -> Result<()> {
    let prefix = folder_prefix(prefix);
    let named = args.names_from.as_deref().map(listed_in).transpose()?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let tally = context.with_client(async |client| {
        let mut objects = listed(&client, &prefix).await?;
        let mut refused = Vec::new();
        if let Some(named) = &named {
            let named: BTreeSet<String> = named.iter().map(|name| format!("{prefix}{name}")).collect();
            let known: BTreeSet<&String> = objects.iter().map(|object| &object.name).collect();
            let unknown = named.iter().filter(|name| !known.contains(name));
            refused.extend(unknown.map(|name| Refused::new(name, "there is no such object")));
            objects.retain(|object| named.contains(&object.name));
        }
        let bytes = objects.iter().map(|object| object.bytes).sum();
        let what = format!("get {prefix}");
        let mut tally =
            Tally::new(context.out, (&what, "file"), (objects.len() + refused.len()) as u64, bytes);
        let (prefix_bytes, skip_same) = (prefix.len(), args.skip_same);
        let get = |object: Listed| {
            let (client, folder, options) = (client.clone(), folder.to_path_buf(), options.clone());
            async move {
                get_one(client, &object, &object.name[prefix_bytes..], (folder, skip_same), options).await
            }
        };
        tally.run(objects, args.at_once, get).await;
        refused.into_iter().for_each(|refused| tally.note(Err(refused)));
        Ok(tally)
    })?;
    tally.answer(context.out, "written")
}

async fn get_one(
    client: Client,
    object: &Listed,
    name: &str,
    (folder, skip_same): (PathBuf, bool),
    options: GetOptions,
) -> std::result::Result<Done, Refused> {
    let path = path_of(name).map_err(|why| Refused::new(&object.name, why))?;
    let (bytes, digest) = (object.bytes, object.digest.clone());
    let place = move || place(&folder, &path, (bytes, &digest), skip_same);
    let placed =
        tokio::task::spawn_blocking(place).await.map_err(|error| Refused::new(&object.name, error))?;
    let Some(path) = placed.map_err(|why| Refused::new(&object.name, why))? else {
        return Ok(Done::Same(object.bytes));
    };
    let report = client.get_to_file(&object.name, &path, options).await;
    report.map(|report| Done::Moved(report.bytes)).map_err(|error| Refused::new(&object.name, error))
}

/// Makes the folders of a file. Returns where it goes; `None` if it is there with the same content.
fn place(
    folder: &Path,
    path: &Path,
    (bytes, digest): (u64, &[u8]),
    skip_same: bool,
) -> std::result::Result<Option<PathBuf>, String> {
    let mut at = folder.to_path_buf();
    for part in path.parent().unwrap_or(Path::new("")).components() {
        at.push(part);
        let kind = std::fs::symlink_metadata(&at);
        match kind {
            Ok(kind) if kind.is_dir() => continue,
            // A link may lead out of the folder.
            Ok(_) => return Err(format!("{} is there, and is no folder", at.display())),
            Err(_) => match std::fs::create_dir(&at) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(format!("{}: {error}", at.display()));
                }
                _ => {}
            },
        }
    }
    let file = folder.join(path);
    match std::fs::symlink_metadata(&file) {
        Ok(there) if !there.is_file() => Err(format!("{} is there, and is no regular file", file.display())),
        Ok(there) if skip_same && there.len() == bytes => {
            let same = digest_of(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            Ok((same.as_bytes() != digest).then_some(file))
        }
        _ => Ok(Some(file)),
    }
}
