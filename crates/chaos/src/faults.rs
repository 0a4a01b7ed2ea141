//! What happens to the cluster: each fault is applied, lasts, and is undone, in a thread of its own. What destroys bytes looks
//! first at what the redundancy of that moment allows, and leaves out what it does not.

mod catalog;
mod files;
pub mod folders;
mod lives;
mod records;
mod shims;
pub mod trial;
mod unread;

use crate::plan::{Fault, Step};
use crate::world::{World, locked};
use anyhow::Result;
use std::time::Duration;

/// How a fault went, for the tally.
type Outcome = Result<&'static str>;

/// It happened, and is undone if it can be.
const DONE: &str = "done";

/// It would have destroyed what nothing stands in for.
const NO_MARGIN: &str = "left out: no margin";

/// There was nothing that it could happen to.
const NOTHING: &str = "left out: nothing there";

/// This machine does not let it happen; a stop of the process stands in for it, if it lasts.
const STOPPED: &str = "a stop stood in";

/// There is no C compiler here that makes the shim.
const NO_COMPILER: &str = "left out: no C compiler";

/// Lets one fault happen, from its begin to its end.
pub fn happen(world: &World, Step { at_ms, does }: &Step<Fault>) -> Result<()> {
    world.wait_until(*at_ms);
    world.tell(format!("{does:?} …"));
    let outcome = apply(world, does)?;
    world.tell(format!("{} ends: {outcome}", does.kind()));
    world.count(does.kind(), outcome);
    Ok(())
}

fn apply(world: &World, fault: &Fault) -> Outcome {
    // Taken before any daemon is held, and held until what was hurt had time to become whole.
    let _alone = fault.hurts_history().then(|| locked(&world.history));
    // Folders are photographed long before they are set back: those faults hold the daemon twice.
    match fault {
        Fault::SetBackNode { node, by_ms } => return folders::set_back_node(world, *node, *by_ms),
        Fault::SetBackCoordinator { by_ms } => return folders::set_back_coordinator(world, *by_ms),
        Fault::SetBackCluster { by_ms } => return folders::set_back_cluster(world, *by_ms),
        Fault::SecondCoordinator { nodes, by_ms, for_ms } => {
            return folders::second_coordinator(world, nodes, *by_ms, *for_ms);
        }
        Fault::HurtCatalog { damage, is_killed, is_watched, draw } => {
            return catalog::hurt(world, *damage, *is_killed, *is_watched, *draw);
        }
        Fault::HurtRecords { nodes, count, damage, for_ms, draw } => {
            return records::hurt(world, nodes, *count, *damage, *for_ms, *draw);
        }
        Fault::Trial { unread, taking, draw } => {
            return trial::in_the_middle(world, unread.as_ref(), *taking, *draw);
        }
        _ => {}
    }
    // Disk faults do not begin or end while a trial asks what the cluster knows of them.
    let _disks = fault.is_beside_processes().then(|| world.disks.read());
    let _silence = fault.has().is_none().then(|| world.working.write());
    let _held = world.hold(fault.has());
    match *fault {
        Fault::Kill { node, for_ms } => lives::kill(world, &[node], for_ms),
        Fault::KillTwo { nodes, for_ms } => lives::kill(world, &nodes, for_ms),
        Fault::Restart { node } => lives::restart(world, node),
        Fault::Stop { node, for_ms } => lives::stop(world, node, for_ms),
        Fault::CutConnections { node } => lives::cut_connections(world, node),
        Fault::Partition { node, for_ms } => lives::partition(world, node, for_ms),
        Fault::CutPair { nodes, for_ms } => lives::cut_pair(world, nodes, for_ms),
        Fault::FewDescriptors { node, free, for_ms, restart_coordinator } => {
            lives::few_descriptors(world, node, free, for_ms, restart_coordinator)
        }
        Fault::Hide { node, files, permille, for_ms, draw } => {
            files::hide(world, node, files, permille, for_ms, draw)
        }
        Fault::Flip { node, files, count, draw } => files::hurt(world, node, files, count, draw, true),
        Fault::Truncate { node, files, count, draw } => files::hurt(world, node, files, count, draw, false),
        Fault::FutureVersion { node, count, for_ms, draw } => {
            files::future_version(world, node, count, for_ms, draw)
        }
        Fault::FolderAway { node, for_ms } => files::folder_away(world, node, for_ms),
        Fault::FullDisk { node, left_bytes, for_ms } => files::full_disk(world, node, left_bytes, for_ms),
        Fault::Clone { node, for_ms } => folders::clone(world, node, for_ms),
        Fault::Swap { nodes, for_ms } => folders::swap(world, nodes, for_ms),
        Fault::LoseCatalog => folders::lose_catalog(world),
        Fault::ClockJump { node, by_ms, for_ms } => shims::clock_jump(world, node, by_ms, for_ms),
        Fault::ReadErrors { node, files, permille, for_ms, draw } => {
            shims::read_errors(world, node, files, permille, for_ms, draw)
        }
        Fault::WriteErrors { node, permille, for_ms, draw } => {
            shims::write_errors(world, node, permille, for_ms, draw)
        }
        Fault::NoPermission { node, for_ms } => shims::no_permission(world, node, for_ms),
        Fault::HurtIdentity { node, for_ms, draw } => records::hurt_identity(world, node, for_ms, draw),
        Fault::Unread { ref unread, for_ms, draw } => unread::happens(world, unread, for_ms, draw),
        Fault::Vandalize => files::vandalize(world),
        Fault::SetBackNode { .. }
        | Fault::SetBackCoordinator { .. }
        | Fault::SetBackCluster { .. }
        | Fault::SecondCoordinator { .. }
        | Fault::HurtCatalog { .. }
        | Fault::HurtRecords { .. }
        | Fault::Trial { .. } => Ok(NOTHING),
    }
}

fn last(for_ms: u64) {
    std::thread::sleep(Duration::from_millis(for_ms));
}
