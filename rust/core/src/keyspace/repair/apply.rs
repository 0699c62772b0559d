//! Doing what a diagnosis says.

use std::path::Path;
use std::sync::Arc;

use super::super::KeySpace;
use super::super::maintain::forget_dropped;
use super::super::turn::Turn;
use super::super::view::{Environment, segment_path};
use super::{Diagnosis, Looked, diagnose};
use crate::log::START;
use crate::manifest::LogEntry;
use crate::segment::Segment;
use crate::{Error, Result};

/// Repair a key space under the writers' turn, and check all of it again. Files that go out of use get a second name in
/// `aside` first.
pub(crate) fn apply(
    env: &Environment,
    directory: &Path,
    named: Option<&str>,
    aside: &Path,
    looked: Looked,
) -> Result<Option<Diagnosis>> {
    let turn = Turn::open(&*env.system, directory)?;
    let upkeep = Turn::named(&*env.system, &directory.join("upkeep"))?;
    let diagnosis = {
        let _upkeep = upkeep.take(env.lock_timeout, || ())?;
        let _turn = turn.take(env.lock_timeout, || ())?;
        let Some(diagnosis) = diagnose(env, directory, named, looked)? else { return Ok(None) };
        if !diagnosis.is_repairable() {
            return Ok(Some(diagnosis));
        }
        set_aside(env, directory, &diagnosis, aside)?;
        publish(env, directory, &diagnosis)?;
        diagnosis
    };
    let space = KeySpace::new(env.clone(), directory.to_path_buf(), &diagnosis.manifest.name);
    if diagnosis.lacks_filters {
        space.roll_up_all()?;
    }
    space.verify(&mut |_, _| Ok(()))?;
    Ok(Some(diagnosis))
}

/// Give what goes out of use a second name. The names in the directory itself go once the new manifest stands.
fn set_aside(env: &Environment, directory: &Path, diagnosis: &Diagnosis, aside: &Path) -> Result<()> {
    let system = &*env.system;
    for made in [aside.parent().unwrap_or(aside), aside] {
        system.create_directory(made).map_err(Error::io("create", made))?;
    }
    for name in &diagnosis.retired {
        let (from, to) = (directory.join(name), aside.join(name));
        match system.link(&from, &to) {
            // One that is missing cannot be kept.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(Error::io("link", &to))?,
        }
    }
    for changed in [aside, aside.parent().unwrap_or(aside)] {
        system.sync_directory(changed).map_err(Error::io("sync", changed))?;
    }
    if let Some(root) = aside.parent().and_then(Path::parent) {
        system.sync_directory(root).map_err(Error::io("sync", root))?;
    }
    // A snapshot that cannot be read would keep writers from tidying up.
    for name in diagnosis.retired.iter().filter(|name| name.starts_with("pin-")) {
        let path = directory.join(name);
        system.remove(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(())
}

/// Write what was saved as segments of its own, and the manifest that makes it the state.
fn publish(env: &Environment, directory: &Path, diagnosis: &Diagnosis) -> Result<()> {
    let space = KeySpace::new(env.clone(), directory.to_path_buf(), &diagnosis.manifest.name);
    let mut manifest = diagnosis.manifest.clone();
    manifest.number += 1;
    for id in &diagnosis.salvaged_segments {
        let (_, mut run) = Segment::salvage(&*env.system, &segment_path(directory, *id), env.history)?;
        if !run.is_empty() {
            space.write_run(&mut manifest, &mut run)?;
        }
    }
    if let Some(tail) = &diagnosis.tail {
        for mut run in tail.runs(manifest.partition_us, i64::MIN) {
            space.write_run(&mut manifest, &mut run)?;
        }
        manifest.outcomes = tail.outcomes();
        manifest.transactions = tail.transactions();
        manifest.next_sequence = manifest.next_sequence.max(tail.next_sequence);
        let log = space.new_log(manifest.next_file)?;
        manifest.next_file += 1;
        manifest.log = LogEntry { id: log.id, proven: START };
    }
    manifest.next_sequence += diagnosis.skipped;
    forget_dropped(&mut manifest);
    space.publish(&manifest)
}

impl KeySpace {
    /// Roll the filters of all segments that have none up into one.
    fn roll_up_all(&self) -> Result<()> {
        let (group, _) =
            self.read(|view| Ok(view.map_or((Vec::<Arc<Segment>>::new(), 0), |view| view.rollup_group(true))))?;
        if group.is_empty() { Ok(()) } else { self.roll_up(&group, &mut |_| Ok(())) }
    }
}
