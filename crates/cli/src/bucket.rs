//! `stripeline bucket`, and the options with which a put says the same for one object: how blocks are placed, so that encoding
//! moves little.

use crate::context::Context;
use crate::output::{fields, table};
use crate::plan::place::SpreadName;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use plan::placement::Spread;
use serde_json::{Value, json};
use wire::proto::{Bucket, GatherTerms};

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
}

/// How blocks are placed and gathered; all of it or nothing.
#[derive(Args, Debug)]
pub struct GatherArgs {
    /// Place blocks for their archival: random, ear-preliminary or ear (encoding-aware replication). They wait in stripes of --code
    #[arg(long, value_name = "POLICY", requires = "code")]
    policy: Option<String>,
    /// Erasure code of these stripes, such as rs-10+4
    #[arg(long, requires = "policy")]
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
    pub fn terms(&self) -> Result<Option<GatherTerms>> {
        let (Some(policy), Some(code)) = (&self.policy, &self.code) else { return Ok(None) };
        // A bad name is refused here, with what there is instead, before anything is asked of the cluster.
        let code = codes::Code::parse(code)?.name().to_owned();
        Ok(Some(GatherTerms {
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
            let terms = args.gather.terms()?;
            let terms = terms.context("say how: --policy and --code")?;
            let bucket = Bucket { name: args.name, terms: Some(terms) };
            let (document, text) = (bucket_json(&bucket), sentence(&bucket));
            context.with_client(async |client| Ok(client.set_bucket(bucket).await?))?;
            context.out.answer(&document, || text)
        }
        BucketCommand::Unset { name } => {
            let bucket = Bucket { name: name.clone(), terms: None };
            context.with_client(async |client| Ok(client.set_bucket(bucket).await?))?;
            context.out.answer(&json!({"name": name, "set": false}), || format!("{name}: put as all others"))
        }
        BucketCommand::List => {
            let buckets = context.with_client(async |client| Ok(client.buckets().await?))?;
            let document: Vec<Value> = buckets.iter().map(bucket_json).collect();
            context.out.answer(&document, || {
                let mut table = table(["BUCKET", "POLICY", "CODE", "IN A RACK", "RACKS", "REPLICAS IN"]);
                for bucket in &buckets {
                    let terms = bucket.terms.clone().unwrap_or_default();
                    table.add_row([
                        bucket.name.clone(),
                        terms.policy,
                        terms.code,
                        terms.rack_capacity.to_string(),
                        racks(terms.target_racks),
                        terms.spread,
                    ]);
                }
                table.to_string()
            })
        }
    }
}

fn bucket_json(bucket: &Bucket) -> Value {
    let terms = bucket.terms.clone().unwrap_or_default();
    fields!(bucket => name, terms => policy code rack_capacity target_racks spread)
}

fn sentence(bucket: &Bucket) -> String {
    let terms = bucket.terms.clone().unwrap_or_default();
    format!("{}/…: placed by {}, gathered in stripes of {}", bucket.name, terms.policy, terms.code)
}

fn racks(count: u32) -> String {
    if count == 0 { "any".to_owned() } else { count.to_string() }
}
