//! Applying a diagnosis.

use std::path::Path;
use std::sync::Arc;

use super::diagnose::noted;
use super::{Case, Diagnosis, Looked, diagnose};
use crate::Result;
use crate::format::manifest::{LogEntry, Manifest};
use crate::format::names::{FileKind, MAINTENANCE_LOCK};
use crate::segment::Segment;
use crate::store::values::Runs;
use crate::store::writer_lock::WriterLock;
use crate::store::{KeySpace, Writer};
use crate::wal::{FrameForms, START};

/// Repair a key space under the writer lock, and check all of it again. Files that go out of use
/// first get a second name in `aside`.
pub(crate) fn apply(case: Case, aside: &Path, looked: Looked) -> Result<Option<Diagnosis>> {
    let Case { env, directory, .. } = case;
    // The directory of a lost space may be gone too.
    for made in [directory.parent().unwrap_or(directory), directory] {
        env.system.make_directory(made)?;
    }
    let lock = WriterLock::open(&*env.system, directory)?;
    let maintenance = WriterLock::named(&*env.system, &directory.join(MAINTENANCE_LOCK))?;
    let diagnosis = {
        let _maintenance = maintenance.take(&*env.system, env.lock_timeout, || ())?;
        let guard = lock.take(&*env.system, env.lock_timeout, || ())?;
        let Some(diagnosis) = diagnose(case, looked)? else { return Ok(None) };
        if !diagnosis.is_repairable() {
            return Ok(Some(diagnosis));
        }
        if diagnosis.is_gone {
            // The next log gets the number of one that is lost. Before the name goes: from then on
            // the space counts as a new one.
            lock.forget_logs()?;
        }
        set_aside(case, &diagnosis, aside)?;
        if diagnosis.is_gone {
            return Ok(Some(diagnosis));
        }
        let space = KeySpace::new(env.clone(), directory.to_path_buf(), &diagnosis.manifest.name);
        publish(case, &diagnosis, &mut Writer::holding(&space, guard))?;
        diagnosis
    };
    let space = KeySpace::new(env.clone(), directory.to_path_buf(), &diagnosis.manifest.name);
    if diagnosis.lacks_filters {
        space.build_all_global_filters()?;
    }
    space.verify(&mut |_, _| Ok(()))?;
    Ok(Some(diagnosis))
}

/// Give files that go out of use a second name. Their names in the directory itself are removed
/// once the new manifest is published.
fn set_aside(case: Case, diagnosis: &Diagnosis, aside: &Path) -> Result<()> {
    let (system, directory) = (&*case.env.system, case.directory);
    for made in [aside.parent().unwrap_or(aside), aside] {
        system.make_directory(made)?;
    }
    for name in &diagnosis.retired {
        let (from, to) = (directory.join(name), aside.join(name));
        match system.link_at(&from, &to) {
            // A missing file cannot be kept.
            Err(error) if error.is_missing() => {}
            linked => linked?,
        }
    }
    let name = noted(case);
    let kept = aside.join("known");
    let is_noted = diagnosis.is_gone && system.has(&name)?;
    if is_noted {
        system.link_if_free(&name, &kept)?;
    }
    for changed in [aside, aside.parent().unwrap_or(aside)] {
        system.sync_names(changed)?;
    }
    if let Some(root) = aside.parent().and_then(Path::parent) {
        system.sync_names(root)?;
    }
    if diagnosis.is_gone {
        // A filter that stayed would be taken for what is left of a damaged space.
        for left in &diagnosis.retired {
            system.remove_at(&directory.join(left))?;
        }
        system.sync_names(directory)?;
    }
    if is_noted {
        system.remove_at(&name)?;
        let names = name.parent().unwrap_or(&name);
        system.sync_names(names)?;
    }
    // A snapshot that cannot be read would prevent garbage collection.
    for name in diagnosis.retired.iter().filter(|name| FileKind::Pin.has(name)) {
        let path = directory.join(name);
        system.remove_at(&path)?;
    }
    Ok(())
}

/// Write the saved entries as segments of their own, and the manifest that makes them the state.
fn publish(case: Case, diagnosis: &Diagnosis, writer: &mut Writer<'_>) -> Result<()> {
    let Case { env, directory, .. } = case;
    let space = writer.space();
    let mut manifest = diagnosis.manifest.clone();
    manifest.number += 1;
    for id in &diagnosis.salvaged_segments {
        let mut run = Segment::salvage(&*env.system, &FileKind::Segment.path(directory, *id), env.history)?.run;
        if !run.is_empty() {
            space.write_run(&mut manifest, &mut run)?;
        }
    }
    write_values(space, &mut manifest, diagnosis)?;
    if let Some(memtable) = &diagnosis.memtable {
        manifest.frozen = None;
        for mut run in memtable.runs(manifest.partition_us, i64::MIN) {
            space.write_run(&mut manifest, &mut run)?;
        }
        manifest.outcomes = memtable.outcomes();
        manifest.transactions = memtable.transactions();
        manifest.next_sequence = manifest.next_sequence.max(memtable.next_sequence);
        let log = space.new_log(manifest.next_file, FrameForms { rows: manifest.has_rows(), places: false })?;
        manifest.next_file += 1;
        manifest.log = LogEntry { id: log.id, proven: START };
    }
    manifest.next_sequence += diagnosis.skipped;
    manifest.forget_dropped();
    writer.publish(&manifest)
}

/// Write the rewritten entries of a map.
fn write_values(space: &KeySpace, manifest: &mut Manifest, diagnosis: &Diagnosis) -> Result<()> {
    let (plain, later) = (&diagnosis.values.plain, &diagnosis.values.later.run);
    let mut runs = Runs::of(&plain.rows);
    plain.rows.iter().for_each(|row| runs.plain(plain, row));
    later.rows.iter().for_each(|row| runs.later().push_from(later, row));
    let mut next_file = manifest.next_file;
    manifest.values.extend(space.write_runs(runs, &mut next_file, FileKind::Values)?);
    manifest.next_file = next_file;
    Ok(())
}

impl KeySpace {
    /// Build one global filter over all segments that have none.
    fn build_all_global_filters(&self) -> Result<()> {
        let (group, _) =
            self.read(|view| Ok(view.map_or((Vec::<Arc<Segment>>::new(), 0), |view| view.global_filter_group(true))))?;
        if group.is_empty() { Ok(()) } else { self.build_global_filter(&group, &mut |_| Ok(())) }
    }
}
