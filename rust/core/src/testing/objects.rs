//! An object store in memory whose requests fail, come late, come twice and are reordered, as a
//! seed decides.
//!
//! It assumes this of real stores, and no more:
//! - a create-if-absent has one winner, and forgets names that were deleted;
//! - a request that got no answer, or an error, was executed, or will be executed later, or never;
//! - a request that got an answer may be executed once more later, as if it had been sent twice;
//! - what was written is read from then on, by everybody; a listing may lag behind;
//! - bytes may be damaged on the way to the reader; what is stored stays as it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::simulated::random::Random;
use crate::objects::{Listed, ObjectStore, Put};
use crate::{Error, Result};

/// How often things go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// One request in this number fails; 0 for none.
    pub failures: usize,
    /// One change in this number is executed again, later; 0 for none.
    pub duplicates: usize,
    /// One listing in this number is older than the present; 0 for none.
    pub stale_lists: usize,
    /// After one request in this number its client sleeps for long; 0 for none.
    pub sleeps: usize,
}

/// Requests so far, by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Creates and overwrites.
    pub puts: u64,
    /// Reads.
    pub gets: u64,
    /// Listings.
    pub lists: u64,
    /// Deletions.
    pub deletes: u64,
    /// Bytes that were sent to be stored.
    pub bytes_put: u64,
}

/// A client of a simulated store. Clones are the same client.
#[derive(Clone, Debug)]
pub struct SimulatedObjects {
    shared: Arc<Shared>,
    client: usize,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    changed: Condvar,
}

#[derive(Debug)]
struct World {
    random: Random,
    weather: Weather,
    clock_us: i64,
    objects: BTreeMap<String, (Arc<[u8]>, i64)>,
    /// Requests that are still on their way.
    late: Vec<Request>,
    /// What listings that lag show.
    listing: Vec<Listed>,
    requests: Requests,
    clients: usize,
    /// Those that run side by side, and until which request each sleeps.
    running: Vec<(usize, u64)>,
    turn: Option<usize>,
    served: u64,
    dead: Vec<usize>,
    kills: Vec<(usize, u64)>,
}

#[derive(Clone, Debug)]
enum Request {
    Create(String, Arc<[u8]>),
    Write(String, Arc<[u8]>),
    Delete(String),
}

impl World {
    fn execute(&mut self, request: &Request) -> Put {
        match request {
            Request::Create(name, _) if self.objects.contains_key(name) => return Put::Exists,
            Request::Create(name, bytes) | Request::Write(name, bytes) => {
                self.objects.insert(name.clone(), (bytes.clone(), self.clock_us));
            }
            Request::Delete(name) => drop(self.objects.remove(name)),
        }
        Put::Created
    }

    fn one_in(&mut self, many: usize) -> bool {
        many > 0 && self.random.below(many) == 0
    }

    /// Before each request: time passes, and some of those that are late arrive.
    fn pass_time(&mut self) {
        self.served += 1;
        self.clock_us += 20_000;
        while !self.late.is_empty() && self.random.below(8) == 0 {
            let at = self.random.below(self.late.len());
            let request = self.late.swap_remove(at);
            self.execute(&request);
        }
    }

    fn list(&self) -> Vec<Listed> {
        let listed = |(name, (bytes, modified_us)): (&String, &(Arc<[u8]>, i64))| Listed {
            name: name.clone(),
            size: bytes.len() as u64,
            modified_us: *modified_us,
        };
        self.objects.iter().map(listed).collect()
    }

    /// Who is next of those that run side by side.
    fn pass_turn(&mut self) {
        let awake: Vec<usize> =
            self.running.iter().filter(|(_, until)| *until <= self.served).map(|(client, _)| *client).collect();
        let all: Vec<usize> = self.running.iter().map(|(client, _)| *client).collect();
        let from = if awake.is_empty() { all } else { awake };
        self.turn = if from.is_empty() { None } else { Some(from[self.random.below(from.len())]) };
    }
}

impl SimulatedObjects {
    /// An empty store, and its first client. Everything left to chance follows from `seed`.
    pub fn new(seed: u64, weather: Weather) -> Self {
        let world = World {
            random: Random::new(seed),
            weather,
            clock_us: 1_000_000_000_000_000,
            objects: BTreeMap::new(),
            late: Vec::new(),
            listing: Vec::new(),
            requests: Requests::default(),
            clients: 1,
            running: Vec::new(),
            turn: None,
            served: 0,
            dead: Vec::new(),
            kills: Vec::new(),
        };
        Self { shared: Arc::new(Shared { world: Mutex::new(world), changed: Condvar::new() }), client: 0 }
    }

    /// Another client of the same store.
    #[must_use]
    pub fn client(&self) -> Self {
        let mut world = self.world();
        world.clients += 1;
        Self { shared: self.shared.clone(), client: world.clients - 1 }
    }

    /// Run clients side by side: before each request a seed decides whose is next.
    pub fn run<'a>(&self, actors: Vec<Box<dyn FnOnce(Self) + Send + 'a>>) {
        let clients: Vec<Self> = actors.iter().map(|_| self.client()).collect();
        {
            let mut world = self.world();
            world.running = clients.iter().map(|client| (client.client, 0)).collect();
            world.pass_turn();
        }
        std::thread::scope(|scope| {
            for (actor, client) in actors.into_iter().zip(clients) {
                scope.spawn(move || {
                    let _leaving = Leaving(client.clone());
                    actor(client);
                });
            }
        });
    }

    /// Change the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.world().weather = weather;
    }

    /// Kill this client at the first request that it sends as number `request` of all clients, or
    /// later: whether that one is still executed is left to chance.
    pub fn kill_at(&self, request: u64) {
        let at = (self.client, request);
        self.world().kills.push(at);
    }

    /// Whether this client was killed.
    pub fn is_dead(&self) -> bool {
        self.world().dead.contains(&self.client)
    }

    /// Requests of all clients so far.
    pub fn requests(&self) -> Requests {
        self.world().requests
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<String> {
        self.world().objects.keys().cloned().collect()
    }

    /// Remove an object as a lifecycle rule does.
    pub fn lose(&self, name: &str) {
        self.world().objects.remove(name);
    }

    /// Flip one bit of a stored object.
    pub fn damage(&self, name: &str, bit: usize) {
        if let Some((bytes, _)) = self.world().objects.get_mut(name) {
            let mut damaged = bytes.to_vec();
            let bit = bit % (damaged.len() * 8).max(1);
            if let Some(byte) = damaged.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            *bytes = damaged.into();
        }
    }

    /// Let time pass.
    pub fn wait(&self, duration: Duration) {
        self.world().clock_us += duration.as_micros() as i64;
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serve one request once it is this client's turn.
    fn serve<T>(&self, name: &str, serve: impl FnOnce(&mut World) -> Result<T>) -> Result<T> {
        let mut world = self.world();
        let is_running = |world: &World| world.running.iter().any(|(client, _)| *client == self.client);
        while is_running(&world) && world.turn != Some(self.client) {
            world = self.shared.changed.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        world.pass_time();
        let served = world.served;
        let dies = world.kills.iter().any(|(client, at)| *client == self.client && *at <= served);
        let answer = if world.dead.contains(&self.client) {
            Err(failure(name, "the process is dead"))
        } else if dies {
            let answer = if world.random.coin() { serve(&mut world).err() } else { None };
            world.dead.push(self.client);
            Err(answer.unwrap_or_else(|| failure(name, "the process is dead")))
        } else {
            serve(&mut world)
        };
        let sleeps = world.weather.sleeps;
        if world.one_in(sleeps) {
            let until = served + 20 + world.random.below(300) as u64;
            world.running.iter_mut().filter(|(client, _)| *client == self.client).for_each(|own| own.1 = until);
        }
        world.pass_turn();
        self.shared.changed.notify_all();
        answer
    }

    /// A request that changes something.
    fn change(&self, name: &str, request: &Request) -> Result<Put> {
        self.serve(name, |world| {
            match request {
                Request::Create(_, bytes) | Request::Write(_, bytes) => {
                    world.requests.puts += 1;
                    world.requests.bytes_put += bytes.len() as u64;
                }
                Request::Delete(_) => world.requests.deletes += 1,
            }
            let Weather { failures, duplicates, .. } = world.weather;
            if world.one_in(failures) {
                match world.random.below(4) {
                    0 => {}
                    1 => world.late.push(request.clone()),
                    2 => drop(world.execute(request)),
                    // The client sends it again by itself.
                    _ => {
                        world.execute(request);
                        return Ok(world.execute(request));
                    }
                }
                return Err(failure(name, "503 slow down"));
            }
            if world.one_in(duplicates) {
                world.late.push(request.clone());
            }
            Ok(world.execute(request))
        })
    }

    fn look(&self, name: &str) -> Result<Option<Arc<[u8]>>> {
        self.serve(name, |world| {
            world.requests.gets += 1;
            let failures = world.weather.failures;
            if world.one_in(failures) {
                let damaged =
                    world.objects.get(name).map(|(bytes, _)| bytes.to_vec()).filter(|bytes| !bytes.is_empty());
                if let (Some(mut bytes), true) = (damaged, world.random.coin()) {
                    let at = world.random.below(bytes.len());
                    bytes[at] ^= 1 << world.random.below(8);
                    return Ok(Some(bytes.into()));
                }
                return Err(failure(name, "the connection was reset"));
            }
            Ok(world.objects.get(name).map(|(bytes, _)| bytes.clone()))
        })
    }
}

fn failure(name: &str, reason: &str) -> Error {
    Error::Objects { operation: "reach", name: name.to_owned(), reason: reason.to_owned() }
}

/// Lets the others go on once an actor has ended, however it ended.
#[derive(Debug)]
struct Leaving(SimulatedObjects);

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut world = self.0.world();
        world.running.retain(|(client, _)| *client != self.0.client);
        world.pass_turn();
        self.0.shared.changed.notify_all();
    }
}

impl ObjectStore for SimulatedObjects {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.change(name, &Request::Create(name.to_owned(), bytes.into()))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.change(name, &Request::Write(name.to_owned(), bytes.into())).map(drop)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.look(name)?.map(|bytes| bytes.to_vec()))
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.look(name)?.map(|bytes| {
            let start = (offset as usize).min(bytes.len());
            bytes[start..start.saturating_add(length).min(bytes.len())].to_vec()
        }))
    }

    fn put_file(&self, name: &str, path: &Path) -> Result<Put> {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        self.put_new(name, &bytes)
    }

    fn get_file(&self, name: &str, path: &Path, _bytes: u64) -> Result<bool> {
        let Some(bytes) = self.look(name)? else { return Ok(false) };
        std::fs::write(path, bytes).map_err(Error::io("write", path))?;
        Ok(true)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.serve(prefix, |world| {
            world.requests.lists += 1;
            let Weather { failures, stale_lists, .. } = world.weather;
            if world.one_in(failures) {
                return Err(failure(prefix, "503 slow down"));
            }
            // A listing that lags shows the same as an earlier one.
            if !world.one_in(stale_lists) {
                world.listing = world.list();
            }
            Ok(world.listing.iter().filter(|object| object.name.starts_with(prefix)).cloned().collect())
        })
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.change(name, &Request::Delete(name.to_owned())).map(drop)
    }

    fn pause(&self, duration: Duration) {
        self.wait(duration);
    }
}
