//! `stripeline node --store hdfs`: a helper beside a DataNode, and the gateway through which the DataNode asks for blocks.

use super::node::NodeArgs;
use super::{announce, end_announcement, until_told_to_end};
use crate::amount::Rate;
use crate::context::{Context, run};
use crate::local::folder_of;
use anyhow::{Result, bail};
use exec::Throttle;
use node::hdfs::tokens::BlockTokens;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the plugin asks unless it is told (`stripeline.gateway`).
const DEFAULT_GATEWAY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7450);

/// Runs it until it is told to end. It keeps nothing: a folder (`--dir`) is only for those who wait for its addresses.
pub fn run_helper(context: &Context, coordinator: String, args: &NodeArgs, file: &NodeArgs) -> Result<()> {
    let data_dirs = if args.data_dir.is_empty() { &file.data_dir } else { &args.data_dir };
    if data_dirs.is_empty() {
        bail!(
            "--store hdfs needs the DataNode's data folders (dfs.datanode.data.dir): give --data-dir once for each"
        );
    }
    let mut config = node::hdfs::Config::new(data_dirs.clone(), coordinator.clone());
    if let Some(rack) = args.rack.clone().or_else(|| file.rack.clone()) {
        config.rack = rack;
    }
    config.block_tokens = match args.block_tokens.as_deref().or(file.block_tokens.as_deref()) {
        None | Some("ask") => BlockTokens::AskDatanode,
        Some("off") => BlockTokens::Off,
        Some(socket) if socket.starts_with('/') => BlockTokens::AskAt(socket.into()),
        Some(other) => {
            bail!("--block-tokens {other}: it is ask, off, or the path of a socket that begins with /")
        }
    };
    let address = |argument: Option<SocketAddr>, file: Option<SocketAddr>, default| {
        argument.or(file).unwrap_or(default)
    };
    config.listen_control = address(args.listen_control, file.listen_control, config.listen_control);
    config.listen_data = address(args.listen_data, file.listen_data, config.listen_data);
    let rate = |argument: Option<Rate>, file: Option<Rate>| argument.or(file).unwrap_or(Rate(0)).0;
    let up = rate(args.throttle_up, file.throttle_up);
    let throttle = Arc::new(Throttle::new(up, rate(args.throttle_down, file.throttle_down)));
    config.throttle = Arc::clone(&throttle);
    let gateway = address(args.gateway, file.gateway, DEFAULT_GATEWAY);
    let dir: Option<PathBuf> = context.dir.clone();
    run(async move {
        let helper = node::hdfs::start(config).await?;
        let gateway = gateway::start(gateway, coordinator, throttle).await?;
        let datanode = helper.datanode();
        tracing::info!(node = %helper.number(), datanode = %datanode.0, gateway = %gateway.addr(), "lends the blocks of a DataNode");
        let dir = dir.as_deref().map(folder_of);
        if let Some(dir) = &dir {
            announce(dir, helper.control_addr(), Some(helper.data_addr()));
        }
        let end = until_told_to_end().await;
        drop(gateway);
        helper.shutdown().await;
        if let Some(dir) = &dir {
            end_announcement(dir);
        }
        end
    })
}
