//! The flow executor: what carries slices, on a node as on a client.
//!
//! ```text
//!  driver task ──grants──▶ stage thread ── data sockets ──▶ stage thread of the next node
//!      ▲                     │    ▲
//!      └──────events─────────┘    └ local block (pread, sidecar)
//! ```
//!
//! - [`Engine`] prepares the stages of a flow (reserving all they need, or refusing at once) and runs one thread for
//!   each; sockets block, the kernel overlaps disk, network and computing.
//! - [`drive`](Engine::drive) is the other side: it prepares every participant, grants slices, collects what comes,
//!   and says whose fault it was when nothing comes.
//! - [`Throttle`] limits a daemon's sockets in both directions.
//!
//! What blocks are and where they lie is behind [`BlockStore`]; the engine of a client has none.
//!
//! Absent: which flow is run and why, the catalog, files. Internal: nodes and clients link it, and others use `client`.

mod answer;
mod awaited;
pub mod connection;
mod connector;
mod control;
mod doing;
pub mod drive;
mod ends;
pub mod engine;
pub mod fault_injection;
mod in_order;
pub mod listener;
mod prepared;
mod rehearse;
pub mod stage;
pub mod store;
mod threads;
pub mod throttle;
mod written;

pub use awaited::Awaited;
pub use drive::DriverIo;
pub use engine::{Engine, EngineConfig, StageIo};
pub use fault_injection::Injection;
pub use listener::DataListener;
pub use prepared::Prepared;
pub use stage::{Delivery, Sink};
pub use store::{BlockSink, BlockSource, BlockStore};
pub use throttle::Throttle;

/// What a mutex guards, also after a thread that held it has panicked: one flow that breaks does not end the others.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
