//! What the shim does to a daemon (`shim.rs`). The daemon is not held: it may be killed, and started again, meanwhile.

use super::{DONE, NO_COMPILER, Outcome, last};
use crate::plan::Files;
use crate::shim::{Number, set};
use crate::world::World;

/// Numbers hold for a time, and are none again.
fn hold(world: &World, node: u32, numbers: &[(Number, i64)], for_ms: u64) -> Outcome {
    if !world.cluster.has_shim() {
        return Ok(NO_COMPILER);
    }
    let folder = world.cluster.process_folder(world.cluster.daemon(node));
    set(&folder, numbers)?;
    last(for_ms);
    set(&folder, &numbers.iter().map(|(number, _)| (*number, 0)).collect::<Vec<_>>())?;
    Ok(DONE)
}

pub(super) fn clock_jump(world: &World, node: u32, by_ms: i64, for_ms: u64) -> Outcome {
    hold(world, node, &[(Number::ClockMs, by_ms)], for_ms)
}

/// The disk returns errors for some blocks; what they hold is there again afterwards. No margin is asked for.
pub(super) fn read_errors(
    world: &World,
    node: u32,
    files: Files,
    permille: u32,
    for_ms: u64,
    draw: u64,
) -> Outcome {
    let files = match files {
        Files::Data => 1,
        Files::Sidecars => 2,
        Files::Pairs => 3,
    };
    // How many comes last: the others say which.
    let numbers = [
        (Number::ReadDraw, draw.cast_signed()),
        (Number::ReadFiles, files),
        (Number::ReadPermille, permille.into()),
    ];
    hold(world, node, &numbers, for_ms)
}

pub(super) fn write_errors(world: &World, node: u32, permille: u32, for_ms: u64, draw: u64) -> Outcome {
    let numbers = [(Number::WriteDraw, draw.cast_signed()), (Number::WritePermille, permille.into())];
    hold(world, node, &numbers, for_ms)
}

pub(super) fn no_permission(world: &World, node: u32, for_ms: u64) -> Outcome {
    hold(world, node, &[(Number::NoPermission, 1)], for_ms)
}
