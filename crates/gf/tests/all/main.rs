//! Kernels against their scalar twins, fingerprints against their definition.

mod fingerprints;
mod levels;
mod regions;
