//! The generated protocol code is committed, so that no build has to make it: here it is made again and compared.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;

/// The renewed code is written where this is set.
const RENEW: &str = "STRIPELINE_RENEW_PROTO";

#[test]
fn the_generated_protocol_is_that_of_its_definition() {
    let wire = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let descriptors = protox::compile([wire.join("proto/stripeline.proto")], [wire.join("proto")]).unwrap();
    tonic_prost_build::configure().out_dir(folder.path()).compile_fds(descriptors).unwrap();
    let made = fs::read_to_string(folder.path().join("stripeline.v1.rs")).unwrap();
    let committed = wire.join("src/proto/stripeline.v1.rs");
    if std::env::var_os(RENEW).is_some() {
        fs::write(&committed, &made).unwrap();
    }
    // Not assert_eq: nobody wants to read both.
    assert!(
        made == fs::read_to_string(&committed).unwrap(),
        "{} is not what proto/stripeline.proto says; renew it: {RENEW}=1 cargo test -p wire generated",
        committed.display()
    );
}
