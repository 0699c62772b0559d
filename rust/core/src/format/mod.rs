//! The encoding of files: manifests, and the names of files and directories.

pub(crate) mod manifest;
pub(crate) mod names;
