//! `stripeline put -r`: the files of a folder become objects.

use super::names::{Found, files_below, files_named, listed_in};
use super::{Done, Refused, Tally, TreeArgs, digest_of, folder_prefix, listed};
use crate::context::Context;
use anyhow::Result;
use client::{Client, PutOptions};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Size and digest of each stored object, by name.
type Known = BTreeMap<String, (u64, Vec<u8>)>;

/// Puts the files of a folder.
pub fn put(
    context: &Context,
    folder: &Path,
    prefix: &str,
    (args, options): (&TreeArgs, &PutOptions),
) -> Result<()> {
    let prefix = folder_prefix(prefix);
    let (found, refused) = match &args.names_from {
        Some(file) => files_named(folder, &listed_in(file)?),
        None => files_below(folder)?,
    };
    let bytes = found.iter().map(|file| file.bytes).sum();
    let what = format!("put {prefix}");
    let mut tally = Tally::new(context.out, (&what, "file"), (found.len() + refused.len()) as u64, bytes);
    context.with_client(async |client| {
        let known = match args.skip_same {
            true => listed(&client, &prefix).await?,
            false => Vec::new(),
        };
        let known: Known =
            known.into_iter().map(|object| (object.name, (object.bytes, object.digest))).collect();
        let known = Arc::new(known);
        let put = |file: Found| {
            let (client, known, options) = (client.clone(), Arc::clone(&known), options.clone());
            put_one(client, format!("{prefix}{}", file.name), file, known, options)
        };
        tally.run(found, args.at_once, put).await;
        Ok(())
    })?;
    // Last, so that they are not scrolled away; they say nothing of what else can be stored.
    refused.into_iter().for_each(|refused| tally.note(Err(refused)));
    tally.answer(context.out, "stored")
}

async fn put_one(
    client: Client,
    name: String,
    file: Found,
    known: Arc<Known>,
    options: PutOptions,
) -> std::result::Result<Done, Refused> {
    let of_file = |error: &dyn std::fmt::Display| Refused::new(file.path.display().to_string(), error);
    if known.get(&name).is_some_and(|(bytes, _)| *bytes == file.bytes) {
        let path = file.path.clone();
        let digest = tokio::task::spawn_blocking(move || digest_of(&path)).await;
        let digest = digest.map_err(|error| of_file(&error))?.map_err(|error| of_file(&error))?;
        if known.get(&name).is_some_and(|(_, known)| digest.as_bytes() == known.as_slice()) {
            return Ok(Done::Same(file.bytes));
        }
    }
    let input = File::open(&file.path).map_err(|error| of_file(&error))?;
    let options = PutOptions { input_bytes: Some(file.bytes), ..options };
    let object = client.put(&name, input, options).await.map_err(|error| Refused::new(&name, error))?;
    Ok(Done::Moved(object.object_bytes))
}
