//! What stands in files: numbers and texts as bytes, and the manifest.

pub(crate) mod manifest;
pub(crate) mod names;
