//! Where replicas go, one policy per file.

pub mod random;
