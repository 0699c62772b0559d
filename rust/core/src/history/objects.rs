//! A history in an object store: the same history, read and written through a replica.

use std::path::Path;
use std::sync::Arc;

use super::{History, OpenOptions, create, identity_bytes};
use crate::format::names::{FileKind, IDENTITY, REGISTRY, Room, SPARE, TRIGGERS, directory_name};
use crate::io::{FileSystem, Scratch, publish_private};
use crate::objects::{ObjectStore, Put};
use crate::store::KeySpace;
use crate::{Error, Result};

/// How often the store is asked for the history's identity.
const TRIES: u32 = 6;
/// The objects of the audit log.
const OF_LOG: &str = "audit/";
const LOG: &str = "known/audit";
/// The directories of all key spaces.
const ROOMS: [&str; 3] = [TRIGGERS, Room::Mapper.directory(), Room::Delivery.directory()];

impl History {
    /// Open a history in an object store. `replica` is a directory of this handle alone, on a local
    /// disk; it is made, and what is in it is lost.
    #[doc(hidden)]
    pub fn open_objects(store: Arc<dyn ObjectStore>, replica: &Path, options: &OpenOptions) -> Result<Self> {
        let identity = ask(|| store.get(IDENTITY))?;
        Self::open_objects_of(store, identity, replica, options)
    }

    /// [`History::open_objects`] of the history whose identity was read a moment ago; none if there
    /// was none.
    #[doc(hidden)]
    pub fn open_objects_of(
        store: Arc<dyn ObjectStore>,
        identity: Option<Vec<u8>>,
        replica: &Path,
        options: &OpenOptions,
    ) -> Result<Self> {
        let system: Arc<dyn FileSystem> = Arc::new(Scratch);
        let replica = std::path::absolute(replica).map_err(Error::io("find", replica))?;
        write_identity(&*store, identity, &*system, &replica, options)?;
        remove_old_files(&*system, &replica)?;
        let mut history =
            Self::open_on(system, &replica, options).map_err(|error| as_object(error, &*store, &replica))?;
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

    /// All key spaces that were used, or that of one trigger.
    pub(crate) fn spaces_named(&self, trigger: Option<&str>) -> Result<Vec<Arc<KeySpace>>> {
        let names = self.triggers()?;
        if let Some(trigger) = trigger {
            if names.iter().any(|name| name == trigger) {
                return Ok(vec![self.space(trigger)?]);
            }
            let reason = format!("there is no trigger {trigger:?} here");
            return Err(Error::Open { path: self.place(), reason });
        }
        let mut spaces = names.iter().map(|name| self.space(name)).collect::<Result<Vec<_>>>()?;
        for room in Room::ALL {
            spaces.extend(self.spaces_in(room)?);
        }
        Ok(spaces)
    }

    /// This history's own space with the directory and the name of another one's.
    pub(crate) fn same_space(&self, other: &KeySpace) -> Result<Arc<KeySpace>> {
        let room = Room::ALL.into_iter().find_map(|room| Some((room, other.name().strip_prefix(room.prefix())?)));
        let is_trigger = other.directory().parent().is_some_and(|parent| parent.ends_with(TRIGGERS));
        match room.filter(|_| !is_trigger) {
            Some((room, name)) => self.value_space(room, name),
            None => self.space(other.name()),
        }
    }

    /// The value spaces of a room that were used.
    fn spaces_in(&self, room: Room) -> Result<Vec<Arc<KeySpace>>> {
        self.value_spaces(room)?.iter().map(|name| self.value_space(room, name)).collect()
    }
}

/// Write the history's identity into its replica: the one that was read, or that of a new history.
fn write_identity(
    store: &dyn ObjectStore,
    identity: Option<Vec<u8>>,
    system: &dyn FileSystem,
    replica: &Path,
    options: &OpenOptions,
) -> Result<()> {
    let file = replica.join(IDENTITY);
    match identity {
        Some(bytes) => {
            system.make_directory(replica)?;
            system.make_directory(&replica.join(TRIGGERS))?;
            publish_private(system, &file, &bytes)?;
        }
        None if !options.create || options.read_only => {
            let reason = "there is no history here; create=True makes one".into();
            return Err(Error::Open { path: store.place().into(), reason });
        }
        None => {
            create(system, replica, options)?;
            let own = identity_bytes(system, &file)?;
            // Another handle was first, or this one was, and the answer was lost.
            if !matches!(ask(|| store.put_new(IDENTITY, &own))?, Put::Created) {
                let Some(bytes) = ask(|| store.get(IDENTITY))? else {
                    let reason = "the store says that a history is here, and then that there is none: try again".into();
                    return Err(Error::Open { path: store.place().into(), reason });
                };
                system.remove_at(&file)?;
                publish_private(system, &file, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Remove the files of all key spaces from a replica that a handle used before.
fn remove_old_files(system: &dyn FileSystem, replica: &Path) -> Result<()> {
    for room in ROOMS {
        let room = replica.join(room);
        for name in system.names_if_any(&room)? {
            let directory = room.join(name);
            for name in system.names(&directory)? {
                if FileKind::of(&name).is_some() {
                    system.remove_at(&directory.join(name))?;
                }
            }
        }
    }
    Ok(())
}

/// An error about the replica's identity names the object, which is what somebody can restore: the
/// replica's file is gone with the call.
fn as_object(error: Error, store: &dyn ObjectStore, replica: &Path) -> Error {
    let is_identity = |path: &Path| path == replica.join(IDENTITY);
    let name = || format!("{}/{IDENTITY}", store.place());
    match error {
        Error::Corrupt { path, offset, reason } if is_identity(&path) => {
            Error::CorruptObject { name: name(), offset, reason }
        }
        Error::Open { path, reason } if is_identity(&path) => Error::Open { path: name().into(), reason },
        other => other,
    }
}

/// Copy a history in an object store into a directory, which is then a history of its own with the
/// same identity. Answers the triggers, mappers and deliveries that it has. Nothing is synced: the
/// caller does that before it relies on it.
#[doc(hidden)]
pub fn copy_from_objects(store: Arc<dyn ObjectStore>, directory: &Path) -> Result<Vec<String>> {
    let history = History::open_objects(store, directory, &OpenOptions { read_only: true, ..OpenOptions::default() })?;
    let mut names = history.triggers()?;
    for name in &names {
        history.space(name)?.exists()?;
    }
    for room in Room::ALL {
        for space in history.spaces_in(room)? {
            space.exists()?;
            names.push(space.name().to_owned());
        }
    }
    let bytes = identity_bytes(&Scratch, &directory.join(IDENTITY))?;
    publish_private(&Scratch, &directory.join(SPARE), &bytes)?;
    Ok(names)
}

impl History {
    /// Copy this history, to which nobody else writes, into an object store that has nothing but
    /// the copy of its audit log. The identity goes last: until then it is no history.
    #[doc(hidden)]
    pub fn copy_to_objects(&self, store: &Arc<dyn ObjectStore>) -> Result<()> {
        let refused = |reason: String| Err(Error::Open { path: store.place().into(), reason });
        let is_other = |name: &str| name != LOG && !name.starts_with(OF_LOG);
        if let Some(other) = ask(|| store.list(""))?.iter().find(|one| is_other(&one.name)) {
            return refused(format!("the place for the copy holds other objects ({}): name another URL", other.name));
        }
        for name in self.triggers()? {
            self.space(&name)?.copy_to_objects(store)?;
        }
        for room in Room::ALL {
            self.spaces_in(room)?.iter().try_for_each(|space| space.copy_to_objects(store))?;
        }
        let bytes = identity_bytes(&*self.env.system, &self.env.identity)?;
        ask(|| store.put_new(IDENTITY, &bytes)).map(drop)
    }
}

/// The key spaces of a directory that have a commit, by their full names.
pub(super) fn names_in(store: &dyn ObjectStore, directory: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let prefix = format!("{REGISTRY}/{directory}-");
    let room = Room::ALL.into_iter().find(|room| room.directory() == directory).map_or("", Room::prefix);
    for listed in ask(|| store.list(&prefix))? {
        let own = listed.name.strip_prefix(&prefix);
        // Bytes may be damaged on the way: the object's name has a hash of what it holds.
        let is_own = |name: &String| name.strip_prefix(room).map(directory_name).as_deref() == own;
        names.extend(ask(|| match store.get(&listed.name)? {
            None => Ok(None),
            Some(bytes) => match String::from_utf8(bytes).ok().filter(is_own) {
                Some(name) => Ok(Some(name)),
                None => {
                    let (operation, name) = ("read", listed.name.clone());
                    Err(Error::Objects { operation, name, reason: "it holds another name than its own".into() })
                }
            },
        })?);
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
