//! Another state becomes the head.
//!
//! The volume is opened, which recovers it, and nothing else uses it. Then a second volume is assembled in memory
//! around the other state: its ifile, its forwarded blocks, and its usage table with the pins of all records. It goes
//! on where the log of the first one stands, and its first checkpoint puts all of it in force. Until then everything
//! that the old head needs is as it was, and a power failure brings back the old head; what only the old head used
//! becomes clean with the checkpoint.

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::snapshots::HeadChange;
use twin_fs::{Core, Cpu, FsError, Inode, ROOT_INO, Result, Settings, VolumeOf};
use twin_rt::{BoxFuture, Rt};

use crate::format::{Checkpoint, RecordKind, SegEntry, SnapshotRecord, SnapshotsFile};
use crate::lfs::Lfs;
use crate::open::{around_table, core, read_table};
use crate::segment_usage::{SegmentState, SegmentTable};
use crate::settings::LfsSettings;

/// What the volume has once another state is its head.
struct NewHead {
    /// The state that becomes the head.
    record: SnapshotRecord,
    /// All records, and the name of the head.
    content: SnapshotsFile,
    /// The usage table of the state, with the pins of all records.
    entries: Vec<SegEntry>,
    /// True if the old head is a record now, whose garbage cannot be had.
    keeps_old: bool,
}

impl Lfs {
    /// Makes another state the head. The volume is closed afterwards.
    ///
    /// # Errors
    /// `NotFound` if there is no such state, `Invalid` if it is a snapshot that one would switch to, `NoSpace` if the
    /// garbage of the present head would hold too much room. Then the head is the same as before.
    pub fn set_head<'a>(
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        change: &'a HeadChange,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let settings = LfsSettings { background_cleaning: false, ..LfsSettings::default() };
            let opening =
                Lfs::open(rt, Rc::clone(&device), Cpu::none(), Settings::default(), settings);
            let (volume, _) = opening.await?;
            let prepared = match prepare(&volume, change).await {
                Ok(new) => assemble(rt, device, &volume, new).await,
                Err(error) => Err(error),
            };
            match prepared {
                Ok((core, head)) => {
                    // From here on the old head must not be written.
                    volume.core().poison(FsError::ReadOnly);
                    head.checkpoint(&core, true).await
                }
                Err(error) => {
                    volume.close().await?;
                    Err(error)
                }
            }
        })
    }
}

/// Works out what the volume will have.
async fn prepare(volume: &VolumeOf<Lfs>, change: &HeadChange) -> Result<NewHead> {
    let (old, core) = (&volume.layout, volume.core());
    let (name, keeps_old) = match change {
        HeadChange::Rollback(name) => (name, false),
        HeadChange::Switch(name) => (name, true),
    };
    if old.snapshots.content().head == *name {
        return Err(FsError::Invalid("this is the head already"));
    }
    let record = old.snapshots.record(name)?;
    if keeps_old && record.kind == RecordKind::Snapshot {
        return Err(FsError::Invalid(
            "a snapshot stays as it is: make a branch of it, and switch to that",
        ));
    }
    let target = old.table_of(core, &record).await?;
    old.cleaner.stop().await;
    let mut content = old.snapshots.content().clone();
    let mut kept = None;
    if keeps_old {
        if !old.has_room_for_snapshot(core) {
            return Err(FsError::NoSpace);
        }
        let (log_write, state) = old.write_state(core, &content.head, RecordKind::Branch)?;
        old.send(core, log_write, None);
        content.next_id += 1;
        content.records.retain(|other| other.id != record.id);
        content.records.push(state);
        content.head.clone_from(name);
        kept = Some(old.usage.live_segments());
    }
    old.wait_written(core, old.progress.last()).await?;
    let mut entries: Vec<SegEntry> =
        old.with_segments(|table| (0..table.count()).map(|s| table.entry(s)).collect());
    for segment in kept.into_iter().flatten() {
        let pins = &mut entries[segment as usize].pins;
        *pins = pins
            .checked_add(1)
            .ok_or(FsError::Invalid("there are as many snapshots as can be counted"))?;
    }
    // A table goes as far as there is something in it.
    let target = target.into_iter().chain(std::iter::repeat(SegEntry::default()));
    for (entry, of_state) in entries.iter_mut().zip(target) {
        if of_state.live_bytes > 0 && keeps_old {
            let pins = entry.pins.checked_sub(1);
            entry.pins = pins.ok_or_else(|| {
                FsError::inconsistent("a branch needs a segment that is not pinned")
            })?;
        }
        let SegEntry { live_bytes, forwards, written, .. } = of_state;
        *entry = SegEntry { live_bytes, forwards, written, pins: entry.pins };
    }
    Ok(NewHead { record, content, entries, keeps_old })
}

/// The volume with the other head, in memory.
async fn assemble(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    volume: &VolumeOf<Lfs>,
    new: NewHead,
) -> Result<(Rc<Core>, Lfs)> {
    let NewHead { record, content, entries, keeps_old } = new;
    let (old, sb) = (&volume.layout, volume.layout.sb.clone());
    let core = core(rt, device, Cpu::none(), &sb, Settings::default())?;
    let ifile = Inode::new(record.ifile.clone());
    let (_, frames) = read_table(&core, &sb, &ifile).await?;
    let mut table = SegmentTable::new(&sb, entries);
    // What the old head needs is not filled before the checkpoint.
    let needed = |s: &u32| old.with_segments(|table| table.state(*s) != SegmentState::Clean);
    for segment in (0..sb.segments()).filter(needed) {
        table.set_open(segment);
        table.set_used(segment);
    }
    table.set_all_changed();
    let checkpoint = Checkpoint {
        number: old.checkpoints.number(),
        orphans: record.orphans,
        ..record.as_checkpoint(old)
    };
    let settings = LfsSettings { background_cleaning: false, ..LfsSettings::default() };
    core.quotas.set_note(volume.core().quotas.note().outdated());
    let head = around_table(&core, sb, settings, &checkpoint, (ifile, table, frames)).await?;
    head.skip_serials(&core, old.position.serial());
    head.complete_table(&core);
    if record.picked > 0 {
        let numbers = (ROOT_INO + 1..head.ifile.map_len()).collect();
        head.add_to_free_list(&core, numbers, 0, 0).await?;
    }
    let reserved = head.reserve_records(content.records.len())?;
    head.store_snapshots(&core, content, reserved)?;
    head.usage.assert_held();
    let segment = u64::from(head.sb.segment_size);
    if head.usage.log_room() < head.pending_log_bytes(&core) + 2 * segment
        || (keeps_old && head.reservations.free(head.usage.held_bytes()) == 0)
    {
        return Err(FsError::NoSpace);
    }
    Ok((core, head))
}
