//! Ctrl-C and SIGTERM during long work: what it started is removed before the process ends.

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code of an interrupted command, as shells have it: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// From now on, an interrupt runs `clean_up` on a thread of its own and ends the process.
pub fn clean_up_when_interrupted(clean_up: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        clean_up();
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}
