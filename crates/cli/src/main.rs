//! The program `stripeline`: see the library.

use std::process::ExitCode;

/// Flows come and go with megabytes of buffers each, which the C library's allocator gives back to the kernel every time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
