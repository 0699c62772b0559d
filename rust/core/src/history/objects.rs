//! A history in an object store: the same history, read and written through a replica.

use std::path::Path;
use std::sync::Arc;

use super::{History, OpenOptions, create, identity_bytes};
use crate::format::names::{FileKind, IDENTITY, REGISTRY, TRIGGERS};
use crate::io::{Disk, FileSystem, publish_private};
use crate::objects::{ObjectStore, Put};
use crate::{Error, Result};

/// How often the store is asked for the history's identity.
const TRIES: u32 = 6;

impl History {
    /// Open a history in an object store. `replica` is a directory of this handle alone, on a local
    /// disk; it is made, and what is in it is lost.
    ///
    /// Triggers only: snapshots, staged claims, bulk loads, mappers and deliveries do not work on
    /// an object store yet, so no binding offers this.
    #[doc(hidden)]
    pub fn open_objects(store: Arc<dyn ObjectStore>, replica: &Path, options: &OpenOptions) -> Result<Self> {
        let system: Arc<dyn FileSystem> = Arc::new(Disk);
        let replica = std::path::absolute(replica).map_err(Error::io("find", replica))?;
        let file = replica.join(IDENTITY);
        match ask(|| store.get(IDENTITY))? {
            Some(bytes) => {
                system.make_directory(&replica)?;
                system.make_directory(&replica.join(TRIGGERS))?;
                publish_private(&*system, &file, &bytes)?;
            }
            None if !options.create || options.read_only => {
                let reason = "there is no history here; create=True makes one".into();
                return Err(Error::Open { path: IDENTITY.into(), reason });
            }
            None => {
                create(&*system, &replica, options)?;
                let own = identity_bytes(&*system, &file)?;
                // Another handle was first, or we were, and did not hear of it.
                if !matches!(ask(|| store.put_new(IDENTITY, &own))?, Put::Created)
                    && let Some(bytes) = ask(|| store.get(IDENTITY))?
                {
                    system.remove_at(&file)?;
                    publish_private(&*system, &file, &bytes)?;
                }
            }
        }
        for name in system.names(&replica.join(TRIGGERS))? {
            let directory = replica.join(TRIGGERS).join(name);
            for name in system.names(&directory)? {
                if FileKind::of(&name).is_some() {
                    system.remove_at(&directory.join(name))?;
                }
            }
        }
        let mut history = Self::open_on(system, &replica, options)?;
        history.env.objects = Some(store);
        Ok(history)
    }

    /// Delete the objects of a trigger that no state needs and that are older than `grace`. Answers
    /// how many went.
    #[doc(hidden)]
    pub fn collect_objects(&self, trigger: &str, grace: std::time::Duration) -> Result<u64> {
        let space = self.space(trigger)?;
        space.exists()?;
        space.collect_objects(grace)
    }
}

/// The triggers that have a commit, by name.
pub(super) fn triggers(store: &dyn ObjectStore) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for listed in ask(|| store.list(&format!("{REGISTRY}/{TRIGGERS}-")))? {
        let bytes = ask(|| store.get(&listed.name))?;
        names.extend(bytes.and_then(|bytes| String::from_utf8(bytes).ok()));
    }
    names.sort();
    Ok(names)
}

/// Ask again while the store does not answer.
fn ask<T>(ask: impl Fn() -> Result<T>) -> Result<T> {
    let mut round = 1;
    loop {
        match ask() {
            Err(Error::Objects { .. }) if round < TRIES => round += 1,
            answer => return answer,
        }
    }
}
