//! A volume becomes larger while it is in use.
//!
//! Contract: the superblock alone says the size, so one write of it makes the volume larger, and a power failure leaves
//! the old size or the new one. Before it, all that a reader of the new size needs is durable, and all that a reader of
//! the old size needs is where it was. After it, the usage table may lack the new segments: they are clean, and whoever
//! opens the volume for writing adds them.
//!
//! 1. The checkpoints of both slots are copied to the new end, and the new superblock is written there. A flush. Nothing
//!    of the old volume lies there, and the old superblock is in force.
//! 2. The new superblock is written to the start. A flush. Only now may the log go where the copies at the old end are.
//! 3. Table, accounts and limits follow in memory, in one step, and a checkpoint is made.
//!
//! No checkpoint is written during the first two, so both ends have the same ones when the superblock changes.

use std::rc::Rc;

use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::{Core, FsError, Growth, GrowthView, Result};
use twin_rt::{BoxFuture, Category, join_all};

use crate::format::{CHECKPOINT_BYTES, Superblock};
use crate::lfs::Lfs;
use crate::sizing;

impl Lfs {
    /// The superblock of the volume on a device of `size` bytes.
    fn plan_growth(&self, size: u64) -> Result<Superblock> {
        if size < self.sb.size() {
            return Err(FsError::Invalid(
                "a volume does not become smaller: make a smaller one and copy the files to it",
            ));
        }
        let grown = self.sb.grown_to(size)?;
        // What the longer table and a larger reserve take must be less than what is gained.
        let blocks = 2 * (grown.usage_blocks() - self.sb.usage_blocks())
            + self.sb.geometry.levels as u64
                * u64::from(grown.usage_blocks() > self.sb.usage_blocks());
        let table = blocks * u64::from(self.sb.geometry.block_size);
        let capacity = |sb| sizing::capacity(sb, 3 * self.extra_streams());
        match capacity(&grown) > capacity(&self.sb) + table {
            true => Ok(grown),
            false => Err(FsError::Invalid(
                "there is no room for more segments than the volume has: name a larger --size, or make the device larger first",
            )),
        }
    }

    async fn grow_now(&self, core: &Rc<Core>) -> Result<Growth> {
        let _alone = self.checkpointing.write().await;
        core.check_writable()?;
        let grown = self.plan_growth(core.device.info().size)?;
        let raw = self.stored(&grown).encode();
        let raw = Block::Bytes(Buf::copy_of(&raw).freeze());
        let meta = |at, blocks| Io::write(at, blocks, Class::Meta, Origin::Checkpoint);
        let flush = || core.device.submit(Io::flush(Origin::Checkpoint));
        let mut at_new_end = Vec::new();
        for slot in [0, 1] {
            let from = self.sb.checkpoint_places(slot)[0];
            if let Some(&to) = grown.checkpoint_places(slot).get(1) {
                let read = Io::read(from, CHECKPOINT_BYTES, Class::Meta, Origin::Checkpoint);
                at_new_end.push(meta(to, core.device.submit(read).await?));
            }
        }
        let places = Superblock::places(grown.size(), grown.copies);
        at_new_end.extend(places.get(1).map(|&at| meta(at, vec![raw.clone()])));
        for written in join_all(at_new_end.into_iter().map(|io| core.device.submit(io))).await {
            written?;
        }
        flush().await?;
        core.device.submit(meta(places[0], vec![raw])).await?;
        flush().await?;
        let growth = Growth { before_bytes: self.sb.size(), after_bytes: grown.size() };
        self.follow_growth(core, &grown);
        self.checkpoint_alone(core, false).await?;
        Ok(growth)
    }

    /// Everything in memory follows the superblock of a volume that has grown.
    fn follow_growth(&self, core: &Core, grown: &Superblock) {
        let before = self.sb.segments();
        self.sb.take_extent(grown);
        core.note_growth();
        self.usage.grow(grown);
        self.reservations.set_limit(sizing::capacity(grown, 3 * self.extra_streams()));
        self.complete_table(core);
        core.rt.log(Category::Checkpoint, "grown", || {
            [("segments_before", before.into()), ("segments", grown.segments().into())]
        });
        // Whoever waits for room, or was refused it, finds some.
        self.admission.forget_refused();
        self.space.notify();
    }

    /// Makes the usage table as long as it should be: that of a volume that has grown, or of an older state of one, may
    /// not be.
    pub(crate) fn complete_table(&self, core: &Core) {
        let added = self.ifile.complete_table(core, &self.sb);
        self.reservations.set_used(self.reservations.used() + added);
    }
}

impl GrowthView for Lfs {
    fn growth(&self, size: u64) -> Result<Growth> {
        let after_bytes = self.plan_growth(size)?.size();
        Ok(Growth { before_bytes: self.sb.size(), after_bytes })
    }

    fn grow<'a>(&'a self, core: &'a Rc<Core>) -> BoxFuture<'a, Result<Growth>> {
        Box::pin(self.grow_now(core))
    }
}
