//! Tells the program which of cargo's profiles it is built with: records of experiments name it.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    // Cargo tells build scripts no more than `debug` or `release`; the folder is the profile's own: PROFILE/build/PACKAGE/out.
    let folder = out.ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = match folder {
        Some("debug") => "dev",
        Some(name) => name,
        None => "unknown",
    };
    println!("cargo:rustc-env=STRIPELINE_PROFILE={profile}");
}
