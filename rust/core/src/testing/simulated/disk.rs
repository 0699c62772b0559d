//! The machine behind [`super::Simulated`]: its processes, its names, and its files.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::content::Content;
use super::random::Random;
use crate::io::FileId;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error. A failed write has no effect; a failed sync takes its pages as clean.
    Broken,
    /// No space left on the device.
    Full,
    /// A write fails half done; other operations fail as with [`Fault::Broken`].
    Short,
    /// One bit of a read is wrong; operations other than reads succeed.
    Flip(u64),
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::Full => io::Error::from(ErrorKind::StorageFull),
            _ => io::Error::other("input/output error (simulated)"),
        }
    }
}

/// The state of a process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) operations: u64,
    pub(super) changes: u64,
    pub(super) started: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) fault: Option<(u64, Fault)>,
    pub(super) is_dead: bool,
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(u64),
    Directory,
}

/// One name of a directory: its durable state, and the changes since, in order.
#[derive(Debug, Default)]
struct Name {
    durable: Option<Node>,
    since: Vec<Option<Node>>,
}

impl Name {
    fn now(&self) -> Option<Node> {
        self.since.last().copied().unwrap_or(self.durable)
    }
}

#[derive(Debug)]
struct Inode {
    content: Content,
    /// Failed syncs so far.
    errors: u64,
    /// Open handles, and the number of failed syncs that each was told of.
    open: BTreeMap<u64, u64>,
    /// Process and handle that hold the lock.
    lock: Option<(u64, u64)>,
    /// The handles that share it, and their processes.
    shares: BTreeMap<u64, u64>,
}

/// The whole machine.
#[derive(Debug)]
pub(super) struct World {
    processes: Vec<Process>,
    /// Whole paths; each belongs to the directory before its last part.
    names: BTreeMap<PathBuf, Name>,
    inodes: Vec<Inode>,
    next_handle: u64,
    random: Random,
    /// Whether every request for a lock is granted.
    pub(super) locks_lie: bool,
}

/// Numbers of files are never reused here.
pub(super) fn id_of(inode: u64) -> FileId {
    FileId { device: 0, number: inode, born_ns: 0 }
}

/// The effect of chance and the plan on a change.
enum Fate {
    Happens,
    /// The process dies with it; the flag tells whether the change happens.
    Dies(bool),
    Fails(Fault),
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let root = Name { durable: Some(Node::Directory), since: Vec::new() };
        Self {
            processes: vec![Process::default()],
            names: BTreeMap::from([(PathBuf::from("/"), root)]),
            inodes: Vec::new(),
            next_handle: 0,
            random: Random::new(seed),
            locks_lie: false,
        }
    }

    pub(super) fn start_process(&mut self) -> u64 {
        self.processes.push(Process::default());
        self.processes.len() as u64 - 1
    }

    pub(super) fn process(&mut self, process: u64) -> &mut Process {
        &mut self.processes[process as usize]
    }

    pub(super) fn fill_random(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.random.next() as u8;
        }
    }

    /// Count an operation; a fault that was planned for it is used up.
    fn count(&mut self, process: u64) -> io::Result<Option<Fault>> {
        let state = self.process(process);
        if state.is_dead {
            return Err(io::Error::other("the process is dead (simulated)"));
        }
        state.operations += 1;
        let due = state.fault.filter(|(at, _)| *at <= state.operations).map(|(_, fault)| fault);
        if due.is_some() {
            state.fault = None;
        }
        Ok(due)
    }

    fn fate(&mut self, process: u64) -> io::Result<Fate> {
        let fault = self.count(process)?;
        let state = self.process(process);
        state.changes += 1;
        if state.crash_at.is_some_and(|at| at <= state.changes) {
            self.kill(process);
            return Ok(Fate::Dies(self.random.coin()));
        }
        Ok(match fault {
            Some(fault) if !matches!(fault, Fault::Flip(_)) => Fate::Fails(fault),
            _ => Fate::Happens,
        })
    }

    /// A read, which fails if that is planned.
    pub(super) fn look<T>(&mut self, process: u64, look: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        self.look_or_flip(process)?;
        look(self)
    }

    /// Count a read; answers which of its bits is wrong, if one is.
    pub(super) fn look_or_flip(&mut self, process: u64) -> io::Result<Option<u64>> {
        match self.count(process)? {
            Some(Fault::Flip(bit)) => Ok(Some(bit)),
            Some(fault) => Err(fault.error()),
            None => Ok(None),
        }
    }

    /// A change of names that happens completely or not at all.
    pub(super) fn change<T>(&mut self, process: u64, change: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        match self.fate(process)? {
            Fate::Happens => change(self),
            Fate::Fails(fault) => Err(fault.error()),
            Fate::Dies(happens) => {
                if happens {
                    // The caller is dead and gets no answer.
                    drop(change(self));
                }
                Err(io::Error::other("the process died (simulated)"))
            }
        }
    }

    fn node(&self, path: &Path) -> Option<Node> {
        self.names.get(path).and_then(Name::now)
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.node(path) {
            Some(Node::File(inode)) => Ok(inode),
            Some(Node::Directory) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn set(&mut self, path: &Path, node: Option<Node>) -> io::Result<()> {
        if path.parent().and_then(|parent| self.node(parent)) != Some(Node::Directory) {
            return Err(ErrorKind::NotFound.into());
        }
        self.names.entry(path.to_path_buf()).or_default().since.push(node);
        Ok(())
    }

    fn set_new(&mut self, path: &Path, node: Node) -> io::Result<()> {
        match self.node(path) {
            None => self.set(path, Some(node)),
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<(u64, u64)> {
        let inode = self.inodes.len() as u64;
        self.set_new(path, Node::File(inode))?;
        self.inodes.push(Inode {
            content: Content::default(),
            errors: 0,
            open: BTreeMap::new(),
            lock: None,
            shares: BTreeMap::new(),
        });
        self.open(path)
    }

    pub(super) fn open(&mut self, path: &Path) -> io::Result<(u64, u64)> {
        let inode = self.file(path)?;
        self.next_handle += 1;
        let file = &mut self.inodes[inode as usize];
        file.open.insert(self.next_handle, file.errors);
        Ok((inode, self.next_handle))
    }

    pub(super) fn close(&mut self, inode: u64, handle: u64) {
        self.unlock(inode, handle);
        self.inodes[inode as usize].open.remove(&handle);
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.file(from)?;
        self.set_new(to, Node::File(inode))
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        self.set(path, None)
    }

    pub(super) fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        match self.node(path) {
            Some(Node::Directory) => Ok(()),
            _ => self.set_new(path, Node::Directory),
        }
    }

    fn names_in<'a>(&'a mut self, directory: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a mut Name)> {
        self.names.iter_mut().filter(move |(path, _)| path.parent() == Some(directory))
    }

    pub(super) fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        if self.node(path) != Some(Node::Directory) {
            return Err(ErrorKind::NotFound.into());
        }
        for (_, name) in self.names_in(path) {
            name.durable = name.now();
            name.since.clear();
        }
        Ok(())
    }

    pub(super) fn list(&mut self, path: &Path) -> io::Result<Vec<String>> {
        if self.node(path) != Some(Node::Directory) {
            return Err(ErrorKind::NotFound.into());
        }
        let there = self.names_in(path).filter(|(_, name)| name.now().is_some());
        Ok(there.filter_map(|(path, _)| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.node(path).is_some()
    }

    pub(super) fn identify(&self, path: &Path) -> Option<FileId> {
        match self.node(path)? {
            Node::File(inode) => Some(id_of(inode)),
            Node::Directory => Some(id_of(u64::MAX)),
        }
    }

    pub(super) fn read(&self, inode: u64, buffer: &mut [u8], offset: u64) -> usize {
        let bytes = self.inodes[inode as usize].content.bytes();
        let there = bytes.get(offset as usize..).unwrap_or_default();
        let filled = there.len().min(buffer.len());
        buffer[..filled].copy_from_slice(&there[..filled]);
        filled
    }

    pub(super) fn length(&self, inode: u64) -> u64 {
        self.inodes[inode as usize].content.bytes().len() as u64
    }

    pub(super) fn write(&mut self, process: u64, inode: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let fate = self.fate(process)?;
        let part = self.random.below(bytes.len() + 1);
        let content = &mut self.inodes[inode as usize].content;
        match fate {
            Fate::Happens => {
                content.write(bytes, offset);
                Ok(())
            }
            Fate::Dies(whole) => {
                content.write(if whole { bytes } else { &bytes[..part] }, offset);
                Err(io::Error::other("the process died (simulated)"))
            }
            Fate::Fails(fault) => {
                if fault == Fault::Short {
                    content.write(&bytes[..part], offset);
                }
                Err(fault.error())
            }
        }
    }

    pub(super) fn extend(&mut self, inode: u64, length: u64) {
        self.inodes[inode as usize].content.extend(length as usize);
    }

    pub(super) fn sync(&mut self, process: u64, inode: u64, handle: u64) -> io::Result<()> {
        let fate = self.fate(process)?;
        let Self { inodes, random, .. } = self;
        let file = &mut inodes[inode as usize];
        match fate {
            Fate::Happens => file.content.sync(),
            Fate::Dies(happens) => {
                if happens {
                    file.content.sync();
                }
                return Err(io::Error::other("the process died (simulated)"));
            }
            Fate::Fails(fault) => {
                file.content.fail_sync(random);
                file.errors += 1;
                file.open.insert(handle, file.errors);
                return Err(fault.error());
            }
        }
        // This handle is told now of data that another handle's sync lost, and never again.
        let heard = file.open.insert(handle, file.errors).unwrap_or(file.errors);
        if heard < file.errors { Err(Fault::Broken.error()) } else { Ok(()) }
    }

    pub(super) fn try_lock(&mut self, process: u64, inode: u64, handle: u64) -> bool {
        if self.locks_lie {
            return true;
        }
        let file = &mut self.inodes[inode as usize];
        if file.shares.keys().any(|other| *other != handle) || file.lock.is_some_and(|(_, holder)| holder != handle) {
            return false;
        }
        file.shares.clear();
        file.lock = Some((process, handle));
        true
    }

    pub(super) fn try_share(&mut self, process: u64, inode: u64, handle: u64) -> bool {
        if self.locks_lie {
            return true;
        }
        let file = &mut self.inodes[inode as usize];
        if file.lock.is_some_and(|(_, holder)| holder != handle) {
            return false;
        }
        file.lock = None;
        file.shares.insert(handle, process);
        true
    }

    pub(super) fn names_of(&self, inode: u64) -> u64 {
        self.names.values().filter(|name| name.now() == Some(Node::File(inode))).count() as u64
    }

    pub(super) fn clear(&mut self, inode: u64, bytes: std::ops::Range<u64>) {
        let content = &mut self.inodes[inode as usize].content;
        let end = bytes.end.min(content.bytes().len() as u64);
        content.write(&vec![0; end.saturating_sub(bytes.start) as usize], bytes.start);
    }

    pub(super) fn unlock(&mut self, inode: u64, handle: u64) {
        let file = &mut self.inodes[inode as usize];
        file.lock.take_if(|(_, holder)| *holder == handle);
        file.shares.remove(&handle);
    }

    pub(super) fn kill(&mut self, process: u64) {
        self.process(process).is_dead = true;
        for file in &mut self.inodes {
            file.lock.take_if(|(holder, _)| *holder == process);
            file.shares.retain(|_, holder| *holder != process);
        }
    }

    pub(super) fn lose_power(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        for process in 0..self.processes.len() {
            self.kill(process as u64);
        }
        // A third of the seeds lose everything that is not durable, a third nothing, and the rest
        // by chance.
        let chance = random.below(3);
        for name in self.names.values_mut() {
            let kept = [0, name.since.len(), random.below(name.since.len() + 1)][chance];
            if kept > 0 {
                name.durable = name.since[kept - 1];
            }
            name.since.clear();
        }
        for file in &mut self.inodes {
            file.content.lose_power(&mut random, chance);
        }
    }
}
