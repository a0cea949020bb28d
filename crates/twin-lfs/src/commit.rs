//! Log writes on their way to the device: write-back, fsync, checkpoints.
//!
//! Contract: recovery uses a log write only if it uses every log write before it, so several may be
//! under way at once, in any order. A write that fails poisons the volume: acknowledged data stays
//! readable, and no further change is accepted.

use std::rc::Rc;

use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::{Chosen, Core, FsError, Result, Work};
use twin_rt::{Category, join_all};

use crate::build::LogWrite;
use crate::format::{Checkpoint, LOG_WRITE_CHECKPOINT};
use crate::lfs::Lfs;
use crate::segment_usage::SegmentTable;
use crate::settings::PlantedFault;

impl Lfs {
    /// Writes everything dirty to the log. Returns when the requests have been submitted.
    pub(crate) async fn write_log(&self, core: &Rc<Core>) -> Result<()> {
        core.check_writable()?;
        let room = self.in_flight.take(u64::from(self.sb.segment_size)).await;
        let items = self.snapshot(core, false);
        let log_write = self.build(core, items, 0, Origin::WriteBack)?;
        self.note_all_taken(core);
        self.copy(core, &log_write).await;
        self.send(core, log_write, Some(room));
        Ok(())
    }

    /// Notes what is still dirty after a snapshot: deferred indirect blocks, which wait for a
    /// checkpoint.
    fn note_all_taken(&self, core: &Core) {
        self.checkpoints.set_deferred_bytes(core.cache.dirty_bytes());
        core.forget_dirty();
    }

    /// Writes some dirty files to the log, with what must go with them. Returns when the requests have
    /// been submitted.
    pub(crate) async fn write_files(&self, core: &Rc<Core>, chosen: &[Chosen]) -> Result<()> {
        core.check_writable()?;
        let room = self.in_flight.take(u64::from(self.sb.segment_size)).await;
        let items = self.some_files(core, chosen);
        let log_write = self.build(core, items, 0, Origin::WriteBack)?;
        self.note_some_taken(core, chosen);
        self.copy(core, &log_write).await;
        self.send(core, log_write, Some(room));
        Ok(())
    }

    /// The time in which the processor copies a log write into its requests, if it does
    /// ([`copies`](crate::LfsSettings::copies)). Other log writes may be sent meanwhile.
    pub(crate) async fn copy(&self, core: &Core, log_write: &Option<LogWrite>) {
        if let Some(log_write) = log_write.as_ref().filter(|_| self.settings.copies) {
            core.cpu.charge(Work::Copy(log_write.bytes)).await;
        }
    }

    /// Sends a log write to the device and keeps its frames until it is there.
    pub(crate) fn send(
        &self,
        core: &Rc<Core>,
        log_write: Option<LogWrite>,
        room: Option<twin_rt::BudgetGuard>,
    ) {
        let Some(log_write) = log_write else { return };
        let LogWrite { number, ios, held, .. } = log_write;
        let split = self.settings.planted().is(PlantedFault::SummaryFirst);
        let (ios, uncounted) = if split { summaries_first(ios) } else { (ios, Vec::new()) };
        if core.memory_survives() {
            self.progress.keep(number, &ios);
        }
        let places: Vec<_> = ios.iter().map(|io| io.at..io.at + io.len).collect();
        let pending: Vec<_> = ios.into_iter().map(|io| core.device.submit(io)).collect();
        uncounted.into_iter().for_each(|io| drop(core.device.submit(io)));
        let progress = Rc::clone(&self.progress);
        let inode_blocks = Rc::clone(&self.inode_blocks);
        let (core2, rt) = (Rc::clone(core), core.rt.clone());
        rt.spawn("log write", async move {
            let results = join_all(pending).await;
            drop(room);
            if results.iter().all(Result::is_ok) {
                held.iter().for_each(|frame| core2.cache.mark_written(frame));
            } else {
                progress.retain_failed(held);
            }
            for (result, place) in results.into_iter().zip(places) {
                match result {
                    Ok(_) => inode_blocks.written(place),
                    Err(error) => core2.poison(FsError::Io(error)),
                }
            }
            progress.end(number);
        });
    }

    /// What memory that survives a power failure holds at this instant, as writes that are applied to
    /// the device, in order, before recovery opens the volume: the log writes that are not known to be
    /// durable, and one of all that is dirty. It takes dirty data as write-back does and sends nothing,
    /// so the volume must not be used afterwards.
    pub fn preserve(&self, core: &Rc<Core>) -> Result<Vec<Io>> {
        let mut ios = self.progress.kept();
        let items = self.snapshot(core, false);
        let log_write = self.build(core, items, 0, Origin::WriteBack)?;
        self.note_all_taken(core);
        ios.extend(log_write.into_iter().flat_map(|log_write| log_write.ios));
        Ok(ios)
    }

    /// Waits until all log writes up to `number` have reached the device.
    pub(crate) async fn wait_written(&self, core: &Core, number: u64) -> Result<()> {
        let written = || self.progress.written() >= number || core.poisoned().is_some();
        self.progress.changed().wait_until(written).await;
        core.check_writable()
    }

    /// Makes everything that is dirty now durable. Callers that come while the device flushes share
    /// the next flush.
    pub(crate) async fn commit(&self, core: &Rc<Core>) -> Result<()> {
        core.check_writable()?;
        let items = self.snapshot(core, false);
        let log_write = self.build(core, items, 0, Origin::User)?;
        self.note_all_taken(core);
        self.copy(core, &log_write).await;
        self.send(core, log_write, None);
        let target = self.progress.last();
        self.wait_written(core, target).await?;
        self.flush_up_to(core, target).await?;
        self.drop_dead(core);
        Ok(())
    }

    /// Tells a device that drops it from memory what is dead. A recovery could still need it, so the device says
    /// that none will come ([`drops_dead`](twin_disk::BlockDevice::drops_dead)); reads under way could, too, so there
    /// must be none.
    fn drop_dead(&self, core: &Core) {
        let drops_dead = core.device.drops_dead();
        self.usage.note_dead(drops_dead);
        if drops_dead && core.reads.is_idle() {
            let ranges = self.usage.take_dead(&self.sb);
            ranges.into_iter().for_each(|(at, len)| core.device.drop_dead(at, len));
        }
    }

    /// Flushes the device unless the log writes up to `target`, which have reached it, are durable
    /// already.
    pub(crate) async fn flush_up_to(&self, core: &Core, target: u64) -> Result<()> {
        let progress = &self.progress;
        while progress.durable() < target {
            core.check_writable()?;
            let Some(covers) = progress.begin_flush() else {
                progress.changed().wait().await;
                continue;
            };
            let result = if self.settings.planted().is(PlantedFault::SkipFlush) {
                Ok(Vec::new())
            } else {
                core.device.submit(Io::flush(Origin::User)).await
            };
            let durable = result.is_ok().then_some(covers);
            if let Err(error) = result {
                core.poison(FsError::Io(error));
            }
            progress.end_flush(durable);
        }
        core.check_writable()
    }

    /// True if a checkpoint must come before more is written, so that the log to roll forward and the
    /// deferred blocks do not become too many.
    pub(crate) fn checkpoint_needed(&self, core: &Core) -> bool {
        self.checkpoints.since_bytes() >= self.checkpoint_bytes()
            || self.checkpoints.deferred_bytes()
                > core.deferred_limit_bytes(self.sb.segment_size.into())
    }

    /// The bytes of the log after which a checkpoint is wanted.
    fn checkpoint_bytes(&self) -> u64 {
        u64::from(self.settings.checkpoint_segments) * u64::from(self.sb.segment_size)
    }

    /// True if it is time for a checkpoint.
    pub(crate) fn checkpoint_due(&self, core: &Core) -> bool {
        self.checkpoint_needed(core)
            || core.rt.now() - self.checkpoints.time() >= self.settings.checkpoint_age_ns
    }

    /// Writes everything, the ifile included, and then a checkpoint that leads to it. Afterwards,
    /// segments without live data become clean. `closing` says that no write will follow.
    pub(crate) async fn checkpoint(&self, core: &Rc<Core>, closing: bool) -> Result<()> {
        let _alone = self.checkpointing.write().await;
        self.checkpoint_alone(core, closing).await
    }

    /// The same if one is long overdue. Write-back makes checkpoints, but programs that sync whatever they write leave it
    /// nothing to do: the sync that goes beyond twice the bound makes one, so that what a start rolls forward stays bounded.
    /// Where there is something to write back, no sync has to wait for it.
    pub(crate) async fn checkpoint_if_overdue(&self, core: &Rc<Core>) -> Result<()> {
        let is_overdue = || self.checkpoints.since_bytes() >= 2 * self.checkpoint_bytes();
        if !is_overdue() {
            return Ok(());
        }
        let _alone = self.checkpointing.write().await;
        // Another one may have made it meanwhile.
        match is_overdue() {
            true => self.checkpoint_alone(core, false).await,
            false => Ok(()),
        }
    }

    /// The same for a caller that has the lock of checkpoints.
    pub(crate) async fn checkpoint_alone(&self, core: &Rc<Core>, closing: bool) -> Result<()> {
        core.check_writable()?;
        let log_write = self.build_whole(core, true)?;
        let whole = self.describe_whole(core, log_write, closing);
        self.complete_checkpoint(core, whole).await
    }

    /// Builds the log write of a checkpoint, or, without the snapshots' file, one of the same content.
    pub(crate) fn build_whole(
        &self,
        core: &Rc<Core>,
        with_snapshots: bool,
    ) -> Result<Option<LogWrite>> {
        if self.forwards.is_empty() {
            self.usage.clear_forwards();
        }
        let mut items = self.snapshot(core, true);
        self.add_ifile(core, &mut items, with_snapshots);
        self.build(core, items, LOG_WRITE_CHECKPOINT, Origin::Checkpoint)
    }

    /// The checkpoint of a log write that was just built.
    pub(crate) fn describe_whole(
        &self,
        core: &Core,
        log_write: Option<LogWrite>,
        closing: bool,
    ) -> Whole {
        self.note_all_taken(core);
        let (checkpoint, empty) = self.describe(core, closing);
        Whole { log_writes: vec![log_write], checkpoint, empty }
    }

    /// Sends the log writes of a checkpoint, and writes the checkpoint when they are durable.
    pub(crate) async fn complete_checkpoint(&self, core: &Rc<Core>, whole: Whole) -> Result<()> {
        let Whole { log_writes, checkpoint, empty } = whole;
        for log_write in log_writes {
            self.copy(core, &log_write).await;
            self.send(core, log_write, None);
        }
        let target = self.progress.last();
        if self.settings.planted().is(PlantedFault::ReuseEarly) {
            self.set_clean(&empty);
        }
        self.wait_written(core, target).await?;
        self.flush_up_to(core, target).await?;
        self.write_checkpoint(core, &checkpoint).await?;
        // A read that began earlier may still be in a segment that is about to be reused.
        core.reads.drain().await;
        if self.settings.discard {
            self.discard(core, &empty).await;
        }
        if !self.settings.planted().is(PlantedFault::ReuseEarly) {
            self.drop_dead(core);
            self.set_clean(&empty);
        }
        core.rt.log(Category::Checkpoint, "written", || {
            [("number", checkpoint.number), ("segments_emptied", empty.len() as u64)]
        });
        Ok(())
    }

    /// Discards segments before they may be filled anew: a discard under way could take what is written then.
    async fn discard(&self, core: &Core, segments: &[u32]) {
        let bytes = u64::from(self.sb.segment_size);
        let discards = segments
            .iter()
            .map(|&segment| core.device.submit(Io::discard(self.sb.segment_start(segment), bytes)));
        // A device that cannot discard keeps the bytes, which nobody reads.
        drop(join_all(discards.collect::<Vec<_>>()).await);
    }

    fn set_clean(&self, empty: &[u32]) {
        self.usage.set_clean(empty);
        self.space.notify();
    }

    /// The checkpoint of the log write that was just built, and the segments that it makes clean.
    fn describe(&self, core: &Core, closed: bool) -> (Checkpoint, Vec<u32>) {
        self.usage.clear_changed();
        self.count(|stats| stats.checkpoints += 1);
        let mut picked = self.numbers.picked();
        picked.truncate(crate::format::PICKED_MAX);
        let checkpoint = Checkpoint {
            number: self.checkpoints.begin(core.rt.now()),
            serial: self.position.serial(),
            time: core.rt.now(),
            closed,
            free_head: self.numbers.free_head(),
            free_inodes: self.numbers.free(),
            orphans: self.numbers.orphans().len() as u64,
            heads: self.position.heads(),
            picked,
            ifile: self.ifile.inode.d.borrow().clone(),
            snapshots: self.snapshots.inode(),
            quotas: core.quotas.note(),
        };
        (checkpoint, self.usage.with(SegmentTable::empty))
    }

    async fn write_checkpoint(&self, core: &Core, checkpoint: &Checkpoint) -> Result<()> {
        let raw = Block::Bytes(Buf::copy_of(&checkpoint.encode(&self.sb)).freeze());
        let places = self.sb.checkpoint_places(checkpoint.number % 2);
        let writes = places.into_iter().map(|at| {
            let io = Io::write(at, vec![raw.clone()], Class::Meta, Origin::Checkpoint);
            core.device.submit(io)
        });
        let results = join_all(writes).await;
        let flushed = core.device.submit(Io::flush(Origin::Checkpoint)).await;
        for result in results.into_iter().chain([flushed]) {
            if let Err(error) = result {
                core.poison(FsError::Io(error.clone()));
                return Err(FsError::Io(error));
            }
        }
        Ok(())
    }
}

/// A checkpoint that is about to be written: what has to be durable before, and what becomes clean by it.
pub(crate) struct Whole {
    /// The log writes that it needs, the last of which has the ifile that it names.
    pub(crate) log_writes: Vec<Option<LogWrite>>,
    checkpoint: Checkpoint,
    empty: Vec<u32>,
}

/// [`PlantedFault::SummaryFirst`]: parts each log write in its summary, which counts, and the rest.
fn summaries_first(ios: Vec<Io>) -> (Vec<Io>, Vec<Io>) {
    let split = |mut io: Io| {
        let rest = io.blocks.split_off(1);
        let at = io.at + io.blocks[0].len() as u64;
        let summary = Io::write(io.at, io.blocks, io.class, io.origin);
        (summary, Io::write(at, rest, io.class, io.origin))
    };
    let (firsts, mut rests): (Vec<Io>, Vec<Io>) = ios.into_iter().map(split).unzip();
    rests.retain(|io| io.len > 0);
    (firsts, rests)
}
