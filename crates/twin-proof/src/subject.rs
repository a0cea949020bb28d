//! The layouts under test, as the campaigns see them.
//!
//! Contract: [`Subject`] says how a layout's volume is made and opened for a [`Scenario`], what it
//! uses, and what the marks of a write log count. Everything else of a run is the same for all.

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_ffs::Ffs;
use twin_fs::{CheckRequest, Core, Cpu, Layout, LayoutKind, Result, VolumeOf};
use twin_lfs::Lfs;
use twin_model::Dump;
use twin_rt::Rt;
use vsfs::Vsfs;

use super::{AnyWorld, Scenario};

/// A layout under test.
#[allow(async_fn_in_trait)] // Volumes are driven on one thread: no `Send` bound is wanted.
pub trait Subject: Layout + Sized {
    /// What opening had to do.
    type Recovered;

    /// The marks of a write log count replies; otherwise acknowledged fsyncs and syncs.
    const MARKS_REPLIES: bool;

    /// Makes a volume.
    async fn make(rt: &Rt, device: Rc<dyn BlockDevice>, scenario: &Scenario) -> Result<()>;

    /// Opens a volume.
    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        scenario: &Scenario,
    ) -> Result<(VolumeOf<Self>, Self::Recovered)>;

    /// Bytes used, and the most that this may become.
    fn used(&self) -> (u64, u64);

    /// How the volume stands, in words.
    fn describe(&self, core: &Core) -> String;

    /// What the example `campaign` calls the campaign [`reuse`](fn@super::reuse) of this layout.
    const REUSE: &'static str;

    /// What it calls the exploration [`states`](fn@super::states).
    const STATES: &'static str;

    /// What it calls the campaign [`Exhaustive`](super::Exhaustive).
    const EXHAUSTIVE: &'static str;

    /// What it calls the campaign [`repair`](fn@super::repair).
    const REPAIR: &'static str;

    /// The layout's entry.
    const KIND: &'static dyn LayoutKind;

    /// What is read of a file is held against a checksum.
    fn has_checksums(scenario: &Scenario) -> bool;

    /// Checkpoints since the volume was opened; `None` if there is no log or journal.
    fn checkpoints(&self) -> Option<u64>;

    /// What fsync acknowledged outlives a power failure.
    fn fsync_holds(scenario: &Scenario) -> bool;

    /// Whatever fails, no file gets bytes that were never its own.
    fn keeps_own_bytes(scenario: &Scenario) -> bool;

    /// The rules of what a power failure leaves, by name: see `promise`.
    fn ordering(scenario: &Scenario) -> &str {
        &scenario.ordering
    }

    /// Counts anew what a volume that was just opened has on its disk, without the code of the layout, and
    /// compares it with its own accounts and its tree, if there is such a count.
    ///
    /// # Errors
    /// The first difference.
    fn recount(_world: &AnyWorld<Self>, _tree: &Dump) -> std::result::Result<(), String> {
        Ok(())
    }

    /// What the layout's checker says is wrong with a closed volume.
    async fn complaint(rt: &Rt, device: Rc<dyn BlockDevice>) -> Option<String>;
}

impl Subject for Lfs {
    const REUSE: &'static str = "lfs-reuse";
    const STATES: &'static str = "lfs-states";
    const EXHAUSTIVE: &'static str = "lfs-exhaustive";
    const REPAIR: &'static str = "lfs-repair";
    const KIND: &'static dyn LayoutKind = twin_lfs::LFS;

    fn has_checksums(scenario: &Scenario) -> bool {
        scenario.profile == twin_lfs::format::Profile::Modern
    }

    fn checkpoints(&self) -> Option<u64> {
        Some(self.stats().checkpoints)
    }

    fn fsync_holds(_scenario: &Scenario) -> bool {
        true
    }

    fn keeps_own_bytes(_scenario: &Scenario) -> bool {
        true
    }

    fn recount(world: &AnyWorld<Lfs>, tree: &Dump) -> std::result::Result<(), String> {
        let counted = crate::recount(&world.disk.platter())?;
        let used = world.volume().layout.space().0;
        if used != counted.live_bytes {
            let live = counted.live_bytes;
            return Err(format!("{used} bytes are used, {live} are counted"));
        }
        counted.compare(tree)
    }

    async fn complaint(rt: &Rt, device: Rc<dyn BlockDevice>) -> Option<String> {
        let options = twin_lfs::check::CheckOptions { data: true };
        match twin_lfs::check::check(rt, device, &options, &mut |_| {}).await {
            Ok(report) => (!report.is_clean()).then(|| report.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    type Recovered = twin_lfs::Recovered;

    const MARKS_REPLIES: bool = false;

    async fn make(rt: &Rt, device: Rc<dyn BlockDevice>, scenario: &Scenario) -> Result<()> {
        Lfs::mkfs(rt, device, &scenario.mkfs()).await.map(drop)
    }

    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        scenario: &Scenario,
    ) -> Result<(VolumeOf<Lfs>, Self::Recovered)> {
        Lfs::open(rt, device, Cpu::none(), scenario.settings(), scenario.lfs()).await
    }

    fn used(&self) -> (u64, u64) {
        self.space()
    }

    fn describe(&self, core: &Core) -> String {
        let (used, limit) = self.space();
        let (clean, all, live) =
            self.with_segments(|s| (s.clean_count(), s.count(), s.live_bytes()));
        let (dirty, inodes) = (core.cache.dirty_bytes(), core.dirty_inode_count());
        format!(
            "{clean} of {all} segments clean, {used} of {limit} bytes used, {live} live, {dirty} \
             dirty in blocks and {inodes} inodes; {:?}",
            self.stats()
        )
    }
}

impl Subject for Ffs {
    const REUSE: &'static str = "ffs-reuse";
    const STATES: &'static str = "ffs-states";
    const EXHAUSTIVE: &'static str = "ffs-exhaustive";
    const REPAIR: &'static str = "ffs-repair";
    const KIND: &'static dyn LayoutKind = twin_ffs::FFS;

    fn has_checksums(_scenario: &Scenario) -> bool {
        false
    }

    fn checkpoints(&self) -> Option<u64> {
        (self.superblock().journal_bytes > 0).then(|| self.stats().checkpoints)
    }

    fn fsync_holds(scenario: &Scenario) -> bool {
        scenario.ordering != "async"
    }

    fn keeps_own_bytes(scenario: &Scenario) -> bool {
        scenario.ordering == "journal"
    }

    async fn complaint(_rt: &Rt, device: Rc<dyn BlockDevice>) -> Option<String> {
        match twin_ffs::check::check(device, &mut |_| {}).await {
            Ok(report) => (!report.is_clean()).then(|| report.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    type Recovered = twin_ffs::Recovered;

    const MARKS_REPLIES: bool = true;

    async fn make(rt: &Rt, device: Rc<dyn BlockDevice>, scenario: &Scenario) -> Result<()> {
        Ffs::mkfs(rt, device, &scenario.ffs_mkfs()).await.map(drop)
    }

    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        scenario: &Scenario,
    ) -> Result<(VolumeOf<Ffs>, Self::Recovered)> {
        Ffs::open(rt, device, Cpu::none(), scenario.settings(), scenario.ffs()).await
    }

    fn used(&self) -> (u64, u64) {
        self.space()
    }

    fn describe(&self, core: &Core) -> String {
        let ((used, limit), (blocks, free)) = (self.space(), self.free_space());
        let (dirty, inodes) = (core.cache.dirty_bytes(), core.dirty_inode_count());
        format!(
            "{used} of {limit} bytes used, {blocks} whole blocks free and {free} bytes, {dirty} \
             dirty in blocks and {inodes} inodes; {:?}",
            self.stats()
        )
    }
}

impl Subject for Vsfs {
    const REUSE: &'static str = "vsfs-reuse";
    const STATES: &'static str = "vsfs-states";
    const EXHAUSTIVE: &'static str = "vsfs-exhaustive";
    const REPAIR: &'static str = "vsfs-repair";
    const KIND: &'static dyn LayoutKind = vsfs::VSFS;

    fn has_checksums(_scenario: &Scenario) -> bool {
        false
    }

    fn checkpoints(&self) -> Option<u64> {
        None
    }

    fn fsync_holds(_scenario: &Scenario) -> bool {
        false
    }

    fn keeps_own_bytes(_scenario: &Scenario) -> bool {
        false
    }

    fn ordering(_scenario: &Scenario) -> &str {
        // It orders nothing, and its next start repairs.
        "async"
    }

    async fn complaint(rt: &Rt, device: Rc<dyn BlockDevice>) -> Option<String> {
        let mut quiet = |_, _| {};
        match vsfs::VSFS.check(rt, device, CheckRequest::default(), &mut quiet).await {
            Ok(report) => (!report.is_clean()).then(|| report.findings.join("; ")),
            Err(error) => Some(error.to_string()),
        }
    }

    /// What was repaired, in words.
    type Recovered = Option<String>;

    const MARKS_REPLIES: bool = true;

    async fn make(rt: &Rt, device: Rc<dyn BlockDevice>, scenario: &Scenario) -> Result<()> {
        Vsfs::mkfs(rt, device, &vsfs::MkfsOptions::new(scenario.mkfs().uuid)).await.map(drop)
    }

    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        scenario: &Scenario,
    ) -> Result<(VolumeOf<Vsfs>, Self::Recovered)> {
        Vsfs::open_as_vsfs(rt, device, Cpu::none(), scenario.settings()).await
    }

    fn used(&self) -> (u64, u64) {
        self.used_bytes()
    }

    fn describe(&self, core: &Core) -> String {
        let (dirty, inodes) = (core.cache.dirty_bytes(), core.dirty_inode_count());
        format!("{dirty} dirty in blocks and {inodes} inodes")
    }
}
