//! A document history: a directory with an identity, and one key space for each trigger.

mod inspect;
mod objects;
mod pin;
pub mod values;

pub use objects::copy_from_objects;
#[doc(hidden)]
pub use pin::Described;

pub use inspect::{Entries, EntryBatch, EntryStatus, Progressed, Selection, log_extent};

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::format::names::{
    FileKind, IDENTITY, OF_THE_PACKAGE, REGISTRY, Room, SPARE, TRIGGERS, directory_name, is_directory_name,
};
use crate::io::bytes::{Decoder, Encoder, checked};
use crate::io::{Disk, FileSystem, publish_private};
use crate::key::Codec;
use crate::store::alone::{probe, probe_among_processes};
use crate::store::environment::Environment;
use crate::store::{KeySpace, registry};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"DHISTORY";
const VERSION: u32 = 1;
/// Number of key ranges that Spark may split a history's work into, unless set otherwise.
pub const DEFAULT_SHARDS: u32 = 64;

/// How to open a history.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Create it if it does not exist.
    pub create: bool,
    /// Never write; also works without the right to write.
    pub read_only: bool,
    /// How long to wait for another writer's operation.
    pub lock_timeout: Duration,
    /// Number of shards of a newly created history.
    pub shards: u32,
    /// A snapshot named by [`History::pin`]: read this state of its trigger only.
    pub snapshot: Option<String>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: false,
            read_only: false,
            lock_timeout: Duration::from_secs(30),
            shards: DEFAULT_SHARDS,
            snapshot: None,
        }
    }
}

/// An open history. All its methods may be called by many threads at once.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    env: Environment,
    codec: Codec,
    shards: u32,
    created_at: i64,
    snapshot: Option<String>,
    spaces: Mutex<HashMap<String, Arc<KeySpace>>>,
    values: Mutex<HashMap<(Room, String), Arc<KeySpace>>>,
}

/// The content of the identity file.
pub(crate) struct Identity {
    pub(crate) id: [u8; 16],
    secret: [u8; 32],
    shards: u32,
    created_at: i64,
}

impl Identity {
    /// The codec that turns ids into keys under this secret.
    pub(crate) fn codec(&self) -> Codec {
        Codec::new(&self.secret)
    }
}

impl History {
    /// Open the history in directory `path`.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        // The working directory may change; the history's path must not.
        let path = std::path::absolute(path).map_err(Error::io("find", path))?;
        Self::open_on(Arc::new(Disk), &path, options)
    }

    /// Open a history on another file system.
    pub fn open_on(system: Arc<dyn FileSystem>, path: &Path, options: &OpenOptions) -> Result<Self> {
        let file = path.join(IDENTITY);
        let is_there = match system.has(&file) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotADirectory => {
                let reason = "a file is in its place, or in that of a directory above it; name a directory".into();
                return Err(Error::Open { path: path.to_path_buf(), reason });
            }
            known => known?,
        };
        if !is_there {
            if !options.create || options.read_only {
                for left in [SPARE, REGISTRY] {
                    if system.has(&path.join(left))? {
                        return Err(identity_lost(path));
                    }
                }
                let reason = "there is no history here; create=True makes one".into();
                return Err(Error::Open { path: path.to_path_buf(), reason });
            }
            create(&*system, path, options)?;
        }
        if !options.read_only && options.snapshot.is_none() {
            // The process that made the identity may have died before its name was durable, and
            // nothing may rest on the name until then.
            system.sync_names(path)?;
        }
        let identity_file = system.identity(&file)?;
        let identity = read_identity(&*system, &file)?;
        if !options.read_only && options.snapshot.is_none() {
            if is_there { probe(&*system, &file)? } else { probe_among_processes(&*system, &file)? }
        }
        let env = Environment {
            system,
            history: identity.id,
            read_only: options.read_only || options.snapshot.is_some(),
            lock_timeout: options.lock_timeout,
            identity: file,
            identity_file,
            objects: None,
        };
        Ok(Self {
            path: path.to_path_buf(),
            env,
            codec: identity.codec(),
            shards: identity.shards,
            created_at: identity.created_at,
            snapshot: options.snapshot.clone(),
            spaces: Mutex::new(HashMap::new()),
            values: Mutex::new(HashMap::new()),
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is, for errors: the directory, or the URL of the bucket.
    pub fn place(&self) -> PathBuf {
        self.env.place()
    }

    /// The history's own id.
    pub fn id(&self) -> [u8; 16] {
        self.env.history
    }

    /// When it was made, in microseconds since 1970.
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// Number of shards, fixed when the history was made.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// Whether this handle reads a snapshot, and nothing else.
    pub fn reads_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether this handle never writes.
    pub fn is_read_only(&self) -> bool {
        self.env.read_only
    }

    /// Give many texts one key, so that tests meet collisions. All handles of a history must do the
    /// same.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_colliding_keys(mut self) -> Self {
        self.codec = self.codec.with_collisions();
        self
    }

    /// The codec that turns this history's ids into keys.
    pub(crate) fn codec(&self) -> &Codec {
        &self.codec
    }

    /// The key space of a trigger, whether or not anything was written to it.
    pub(crate) fn space(&self, trigger: &str) -> Result<Arc<KeySpace>> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(space) = spaces.get(trigger) {
            return Ok(space.clone());
        }
        let directory = self.path.join(TRIGGERS).join(directory_name(trigger));
        let mut space = KeySpace::new(self.env.clone(), directory, trigger);
        if let Some(snapshot) = &self.snapshot {
            space.use_pin(self.pin_in(snapshot, trigger)?)?;
        }
        let space = Arc::new(space);
        spaces.insert(trigger.to_owned(), space.clone());
        Ok(space)
    }

    /// Whether this handle reads this snapshot, and nothing else.
    pub(crate) fn is_snapshot(&self, name: &str) -> bool {
        self.snapshot.as_deref() == Some(name)
    }

    /// The pin of a trigger in a snapshot. A trigger that the snapshot does not cover is an error:
    /// it must not pass for empty.
    pub(crate) fn pin_in<'a>(&self, snapshot: &'a str, trigger: &str) -> Result<&'a str> {
        pin_of(snapshot, trigger).map_err(|error| match error {
            Error::Config(reason) => Error::Open { path: self.place(), reason },
            other => other,
        })
    }

    /// The value space of a name, whether or not anything was written to it.
    pub(crate) fn value_space(&self, room: Room, name: &str) -> Result<Arc<KeySpace>> {
        let mut spaces = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (room, name.to_owned());
        if let Some(space) = spaces.get(&key) {
            return Ok(space.clone());
        }
        let directory = self.path.join(room.directory()).join(directory_name(name));
        let full_name = format!("{}{name}", room.prefix());
        let mut space = KeySpace::new_in_room(self.env.clone(), directory, &full_name);
        if let Some(snapshot) = &self.snapshot {
            space.use_pin(self.pin_in(snapshot, &full_name)?)?;
        }
        let space = Arc::new(space);
        spaces.insert(key, space.clone());
        Ok(space)
    }

    /// The value spaces of a room that have entries, or had some, by name.
    pub fn value_spaces(&self, room: Room) -> Result<Vec<String>> {
        let directory = self.path.join(room.directory());
        let names = self.names_in(&directory)?;
        Ok(names.into_iter().filter_map(|name| name.strip_prefix(room.prefix()).map(str::to_owned)).collect())
    }

    /// The triggers that have entries, or had some, by name.
    pub fn triggers(&self) -> Result<Vec<String>> {
        self.names_in(&self.path.join(TRIGGERS))
    }

    fn names_in(&self, directory: &Path) -> Result<Vec<String>> {
        if let Some(store) = &self.env.objects {
            let name = directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            return objects::names_in(&**store, &name);
        }
        if self.snapshot.is_none() {
            // Another history in the place of ours may have none of its names, or others.
            self.env.check_own()?;
        }
        let system = &*self.env.system;
        // Other rooms are created with their first space.
        let entries =
            if directory.ends_with(TRIGGERS) { system.names(directory)? } else { system.names_if_any(directory)? };
        let mut names = Vec::new();
        for entry in entries.into_iter().filter(|entry| is_directory_name(entry)) {
            if let Some(name) = KeySpace::name_in(&self.env, &directory.join(entry))? {
                names.push(name);
            }
        }
        // A space that was used and is gone must not pass for one that was never used.
        for lost in registry::directories_in(&self.env, directory)? {
            if KeySpace::name_in(&self.env, &directory.join(&lost))?.is_none() {
                self.env.check_new(&directory.join(lost))?;
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The name of a snapshot: the trigger and its pin.
pub(crate) fn snapshot_of(trigger: &str, pin: &str) -> String {
    format!("{}={pin}", directory_name(trigger))
}

/// The pin of a key space in a snapshot.
pub(crate) fn pin_of<'a>(snapshot: &'a str, name: &str) -> Result<&'a str> {
    let pin = snapshot.strip_prefix(&directory_name(name)).and_then(|rest| rest.strip_prefix('='));
    pin.ok_or_else(|| Error::Config(format!("the snapshot {snapshot:?} is not one of trigger {name:?}")))
}

/// A history is made in a directory that is there: a mistyped path makes no tree of its own.
fn without_parent(error: Error, path: &Path) -> Error {
    match path.parent() {
        Some(parent) if error.is_missing() => {
            let reason = format!(
                "there is no directory {} to make a history in: mount its disk, correct the path, or make it",
                parent.display()
            );
            Error::Open { path: path.to_path_buf(), reason }
        }
        _ => error,
    }
}

/// There was a history.
fn identity_lost(path: &Path) -> Error {
    let reason = format!(
        "the identity file {IDENTITY} is missing, but there are other files of a history: \
         `dochistory repair` restores it, if its copy {SPARE} is there"
    );
    Error::Open { path: path.to_path_buf(), reason }
}

fn create(system: &dyn FileSystem, path: &Path, options: &OpenOptions) -> Result<()> {
    if options.shards == 0 || !options.shards.is_power_of_two() || options.shards > 1 << 16 {
        return Err(Error::Config(format!("shards is {}; it must be a power of two up to 65536", options.shards)));
    }
    system.make_directory(path).map_err(|error| without_parent(error, path))?;
    let others = system.names(path)?;
    let is_known = |name: &str| [TRIGGERS, IDENTITY, SPARE].contains(&name) || OF_THE_PACKAGE.contains(&name);
    let is_room = |name: &String| name == REGISTRY || Room::ALL.iter().any(|room| name == room.directory());
    let is_ours = |name: &String| is_known(name) || FileKind::Temporary.has(name) || is_room(name);
    if let Some(other) = others.iter().find(|name| !is_ours(name)) {
        let reason = format!("the directory holds other files ({other}); a history needs a directory of its own");
        return Err(Error::Open { path: path.to_path_buf(), reason });
    }
    let triggers = path.join(TRIGGERS);
    system.make_directory(&triggers)?;
    // A room is created with its first space.
    let has_spaces = others.iter().any(is_room);
    if has_spaces || !system.names(&triggers)?.is_empty() {
        return Err(identity_lost(path));
    }
    // The directories first: a process that sees the identity may rely on them.
    system.sync_names(path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    system.sync_names(parent)?;
    let mut random = [0; 48];
    system.randomness_for(path, &mut random)?;
    let mut out = Encoder::new();
    out.raw(&MAGIC).u32(VERSION).u32(options.shards).raw(&random).i64(crate::sys::time::now_us()).checksum();
    // The process that comes second takes the first one's identity.
    let file = path.join(IDENTITY);
    publish_private(system, &file, &out.finish())?;
    publish_private(system, &path.join(SPARE), &identity_bytes(system, &file)?).map(drop)
}

/// The identity file's content, up to the maximum length of such a file.
pub(crate) fn identity_bytes(system: &dyn FileSystem, file: &Path) -> Result<Vec<u8>> {
    system.content(file, 4096)
}

pub(crate) fn read_identity(system: &dyn FileSystem, file: &Path) -> Result<Identity> {
    let bytes = identity_bytes(system, file)?;
    Decoder::new(&bytes, file).preamble(MAGIC, VERSION)?;
    let mut from = Decoder::new(checked(&bytes, file)?, file);
    from.preamble(MAGIC, VERSION)?;
    let shards = from.u32()?;
    let identity = Identity { id: from.bytes16()?, secret: from.bytes32()?, shards, created_at: from.i64()? };
    from.finish()?;
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_made_once_and_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("h");
        assert!(matches!(History::open(&path, &OpenOptions::default()), Err(Error::Open { .. })));
        let made = History::open(&path, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let found = History::open(&path, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        assert_eq!(made.id(), found.id());
        assert!(found.triggers().unwrap().is_empty());
    }

    #[test]
    fn a_snapshot_of_one_trigger_says_nothing_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let snapshot = History::open(directory.path(), &options).unwrap().pin("orders").unwrap();
        let options = OpenOptions { snapshot: Some(snapshot), ..OpenOptions::default() };
        let pinned = History::open(directory.path(), &options).unwrap();
        assert!(pinned.space("orders").is_ok());
        assert!(matches!(pinned.space("invoices"), Err(Error::Open { .. })));
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("precious.txt"), "x").unwrap();
        let opened = History::open(directory.path(), &OpenOptions { create: true, ..OpenOptions::default() });
        assert!(opened.unwrap_err().to_string().contains("precious.txt"));
    }
}
