//! Simulated buckets: calm ones, and storms that three actors go through.

use std::sync::Mutex;

use dochistory_core::objects::ObjectStore;
use dochistory_core::testing::objects::{SimulatedObjects, Weather};

/// One of three at work: with its client and its number.
pub type Actor<'a> = &'a (dyn Fn(&SimulatedObjects, u64) + Sync);

/// A bucket that does all that it is asked for, and a directory for replicas.
pub fn calm() -> (SimulatedObjects, tempfile::TempDir) {
    (SimulatedObjects::new(1, Weather::default()), tempfile::tempdir().unwrap())
}

/// Let three work in bad weather; one of them may be `killed`, as (number, after how many
/// requests). Then all that was late arrives.
pub fn storm(seed: u64, weather: Weather, killed: (u64, u64), work: Actor<'_>) -> SimulatedObjects {
    let objects = SimulatedObjects::new(seed, weather);
    let mut actors: Vec<Box<dyn FnOnce(SimulatedObjects) + Send + '_>> = Vec::new();
    for actor in 0..3 {
        actors.push(Box::new(move |client| {
            if actor == killed.0 {
                client.kill_at(killed.1);
            }
            work(&client, actor);
        }));
    }
    objects.run(actors);
    objects.set_weather(Weather::default());
    for _ in 0..60 {
        drop(ObjectStore::list(&objects, "nothing"));
    }
    objects
}

/// Play schedules in as many threads as there are processors; the sums of what they answer.
pub fn summed<const N: usize>(schedules: u64, play: impl Fn(u64) -> [u64; N] + Sync) -> [u64; N] {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let sums = Mutex::new([0; N]);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (play, sums) = (&play, &sums);
            scope.spawn(move || {
                for seed in (thread..schedules).step_by(threads as usize) {
                    let one = play(seed);
                    sums.lock().unwrap().iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
                }
            });
        }
    });
    sums.into_inner().unwrap()
}
