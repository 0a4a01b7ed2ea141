//! `stripeline bucket`, and the options with which a put says the same for one object: how blocks are placed, so that encoding
//! moves little.

use crate::amount::Age;
use crate::context::Context;
use crate::output::{fields, table};
use crate::plan::place::SpreadName;
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use client::Gather;
use plan::placement::Spread;
use serde_json::{Value, json};
use std::time::Duration;

/// What to do with buckets.
#[derive(Subcommand, Debug)]
pub enum BucketCommand {
    /// From now on place the objects of a bucket by a policy, and gather them in stripes of a code
    Set(SetArgs),
    /// From now on put the objects of a bucket as all others; what waits in stripes already goes on to wait
    Unset {
        /// Name of the bucket
        name: String,
    },
    /// List the buckets that are set
    List,
}

/// Which bucket, and how.
#[derive(Args, Debug)]
pub struct SetArgs {
    /// Name of the bucket: what names of objects have before their first slash
    name: String,
    #[command(flatten)]
    gather: GatherArgs,
    /// Code its objects with --code as they are written, small ones too: no replicas are written
    #[arg(long, requires = "code", conflicts_with = "policy")]
    on_write: bool,
    /// Archive its objects unasked once they are so old, such as 12h or 30d
    #[arg(long, value_name = "AGE", conflicts_with = "on_write")]
    archive_after: Option<Age>,
}

/// How blocks are placed and gathered, or coded as they are written.
#[derive(Args, Debug)]
pub struct GatherArgs {
    /// Place blocks for their archival: random, ear-preliminary, ear (encoding-aware replication) or rapidraid (along a pipeline). They wait in stripes of --code
    #[arg(long, value_name = "POLICY", requires = "code")]
    policy: Option<String>,
    /// Erasure code of these stripes, such as rs-10+4. Without --policy blocks are coded as they are written, and no replicas are made
    #[arg(long)]
    code: Option<String>,
    /// Blocks of a stripe in one rack at most, after encoding [default: 1]
    #[arg(long, value_name = "C", requires = "policy", value_parser = clap::value_parser!(u32).range(1..))]
    rack_capacity: Option<u32>,
    /// Racks that hold a stripe after encoding [default: any number]
    #[arg(long, value_name = "R", requires = "policy", value_parser = clap::value_parser!(u32).range(1..))]
    target_racks: Option<u32>,
    /// How the replicas of a block lie before [default: two-racks]
    #[arg(long, requires = "policy")]
    spread: Option<SpreadName>,
}

impl GatherArgs {
    /// What was said, if anything was.
    ///
    /// # Errors
    /// For a code that is none.
    pub fn terms(&self) -> Result<Option<Gather>> {
        let Some(code) = &self.code else { return Ok(None) };
        // A bad name is refused here, with what there is instead, before anything is asked of the cluster.
        let code = codes::Code::parse(code)?.name().to_owned();
        let Some(policy) = &self.policy else { return Ok(Some(Gather::on_write(code))) };
        Ok(Some(Gather {
            policy: policy.clone(),
            code,
            rack_capacity: self.rack_capacity.unwrap_or(1),
            target_racks: self.target_racks.unwrap_or(0),
            spread: self.spread.map_or_else(Spread::default, Spread::from).name().to_owned(),
        }))
    }
}

pub fn run(context: &Context, command: BucketCommand) -> Result<()> {
    match command {
        BucketCommand::Set(args) => {
            let how = "say how: --policy and --code, or --on-write and --code";
            let gather = args.gather.terms()?.context(how)?;
            if gather.is_on_write() != args.on_write {
                bail!(how);
            }
            if args.archive_after.is_some_and(|Age(age)| age.is_zero()) {
                bail!(
                    "--archive-after: an age of at least a second; without it they are archived when somebody asks"
                );
            }
            let archive_after = args.archive_after.map_or(Duration::ZERO, |Age(age)| age);
            let document = bucket_json(&args.name, &gather, archive_after);
            let Gather { policy, code, .. } = gather.clone();
            context.with_client(async |client| {
                Ok(client.set_bucket(&args.name, Some(gather), archive_after).await?)
            })?;
            context.out.answer(&document, || match args.on_write {
                true => format!("{}/…: coded with {code} as it is written", args.name),
                false => format!("{}/…: placed by {policy}, gathered in stripes of {code}", args.name),
            })
        }
        BucketCommand::Unset { name } => {
            context.with_client(async |client| Ok(client.set_bucket(&name, None, Duration::ZERO).await?))?;
            context
                .out
                .answer(&json!({"name": name, "policy": null}), || format!("{name}/…: put as all others"))
        }
        BucketCommand::List => list(context),
    }
}

fn list(context: &Context) -> Result<()> {
    let buckets = context.with_client(async |client| Ok(client.buckets().await?))?;
    let document: Vec<Value> =
        buckets.iter().map(|(name, gather, after)| bucket_json(name, gather, *after)).collect();
    context.out.answer(&document, || {
        let mut table =
            table(["BUCKET", "POLICY", "CODE", "IN A RACK", "RACKS", "REPLICAS IN", "ARCHIVED AFTER"]);
        for (name, gather, after) in buckets {
            let after = if after.is_zero() { "-".to_owned() } else { Age(after).to_string() };
            if gather.is_on_write() {
                let [in_a_rack, racks, spread] = ["-"; 3].map(str::to_owned);
                table.add_row([name, gather.policy, gather.code, in_a_rack, racks, spread, after]);
                continue;
            }
            let racks =
                if gather.target_racks == 0 { "any".to_owned() } else { gather.target_racks.to_string() };
            let in_a_rack = gather.rack_capacity.to_string();
            table.add_row([name, gather.policy, gather.code, in_a_rack, racks, gather.spread, after]);
        }
        table.to_string()
    })
}

fn bucket_json(name: &str, gather: &Gather, archive_after: Duration) -> Value {
    fields!(gather => policy code rack_capacity target_racks spread; "name": name, "archive_after_s": archive_after.as_secs())
}
