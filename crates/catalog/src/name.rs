//! Names of objects and buckets.

use crate::error::{CatalogError, Result};

/// Bytes of a name.
const MAX_NAME_BYTES: usize = 1024;

/// UTF-8 (already), not empty, bounded, without control characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let limit = MAX_NAME_BYTES;
    if name.is_empty() || name.len() > limit {
        return Err(CatalogError::Invalid(format!(
            "a name of {} bytes: names have 1 to {limit}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(CatalogError::Invalid(format!("the name {name:?} contains a control character")));
    }
    Ok(())
}
