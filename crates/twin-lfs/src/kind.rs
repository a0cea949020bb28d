//! The log's entry in the registry of layouts, and its settings.

use std::rc::Rc;

use twin_clean::{placement, trigger, victim};
use twin_disk::BlockDevice;
use twin_fs::dump::{DumpError, Request, Sink, Structure};
use twin_fs::geometry::Geometry;
use twin_fs::snapshots::{Difference, HeadChange, Shared};
use twin_fs::{
    CheckReport, CheckRequest, Cpu, DeclaredConfig, Identity, LayoutConfig, LayoutKind, Opened,
    Result, Settings, Volume, VolumeProperty,
};
use twin_rt::{BoxFuture, Rt};
use twin_settings::value::bytes_for_people;
use twin_settings::{Key, SettingsError, Unit};

use crate::check::{self, CheckOptions};
use crate::dump;
use crate::format::Profile;
use crate::lfs::Lfs;
use crate::open::{MkfsOptions, read_superblock, write_superblocks};
use crate::recover::Recovered;
use crate::settings::LfsSettings;

/// The entry of the log-structured layout.
pub const LFS: &dyn LayoutKind = &LfsKind;

struct LfsKind;

/// How logs are made and opened.
#[derive(Clone, Debug)]
pub struct LfsConfig {
    /// How a volume is made.
    pub mkfs: MkfsOptions,
    /// How a volume is opened.
    pub lfs: LfsSettings,
}

impl Default for LfsConfig {
    fn default() -> Self {
        // Simulated volumes need no identity, and equal runs must be equal.
        let mkfs = MkfsOptions::modern(*b"twinfs simulated");
        LfsConfig { mkfs, lfs: LfsSettings::default() }
    }
}

const MAKING: &[Key<LfsConfig>] = &[
    Key::own(
        "profile",
        "the structures on disk; sets the sizes that go with them",
        "classic|modern",
        |c, text| {
            let uuid = c.mkfs.uuid;
            c.mkfs = match text {
                "classic" => MkfsOptions::classic(uuid),
                "modern" => MkfsOptions::modern(uuid),
                _ => return Err(SettingsError::unknown("profile", text, ["classic", "modern"])),
            };
            Ok(())
        },
        |c| match c.mkfs.profile {
            Profile::Classic => "classic".into(),
            Profile::Modern => "modern".into(),
        },
    ),
    Key::new(
        "block",
        "bytes of a block, 1K to 64K; larger blocks need less metadata and waste more \
         space in small files",
        Unit::bytes(0, u32::MAX as u64),
        |c| (&mut c.mkfs.block_size).into(),
    ),
    Key::new(
        "frag",
        "bytes of a fragment, the unit of space; a block has 1 to 8",
        Unit::bytes(0, u32::MAX as u64),
        |c| (&mut c.mkfs.frag_size).into(),
    ),
    Key::new(
        "segment",
        "bytes of a segment; 512K to 8M are usual: larger ones need fewer seeks, and \
         cleaning them needs more free space",
        Unit::bytes(0, u32::MAX as u64),
        |c| (&mut c.mkfs.segment_size).into(),
    ),
    Key::new(
        "minfree",
        "share of the space that is kept free; 5% to 20% are sensible: more makes \
         cleaning cheaper",
        Unit::Percent(50),
        |c| (&mut c.mkfs.minfree).into(),
    ),
];

const OPENING: &[Key<LfsConfig>] = &[
    Key::new(
        "victim",
        "policy that chooses the segment to clean next",
        Unit::Name("victim policy", || victim::REGISTRY.names().collect()),
        |c| (&mut c.lfs.victim).into(),
    ),
    Key::new(
        "placement",
        "policy that chooses the blocks to write together",
        Unit::Name("placement policy", || {
            let mountable = placement::REGISTRY.iter().filter(|entry| entry.is_mountable());
            mountable.map(|entry| entry.name).collect()
        }),
        |c| (&mut c.lfs.placement).into(),
    ),
    Key::new(
        "when",
        "policy that decides when the cleaner works although no operation waits for it",
        Unit::Name("policy of when to clean", || trigger::REGISTRY.names().collect()),
        |c| (&mut c.lfs.trigger).into(),
    ),
    Key::new(
        "clean-step",
        "bytes of a request of the background cleaner; larger ones clean faster, and \
         operations wait longer behind them",
        Unit::bytes(4096, 1 << 20),
        |c| (&mut c.lfs.clean_step_bytes).into(),
    ),
    Key::new(
        "background-cleaning",
        "the cleaner works in the background, not only when an operation needs space",
        Unit::YesNo,
        |c| (&mut c.lfs.background_cleaning).into(),
    ),
    Key::new(
        "checkpoint-segments",
        "segments written between checkpoints; more save writes and make recovery longer",
        Unit::number(0, u32::MAX as u64),
        |c| (&mut c.lfs.checkpoint_segments).into(),
    ),
    Key::new(
        "checkpoint-age",
        "the longest time between checkpoints; longer saves writes and makes recovery \
         longer",
        Unit::SECONDS,
        |c| (&mut c.lfs.checkpoint_age_ns).into(),
    ),
    Key::new(
        "in-flight",
        "most bytes of log writes under way; more keeps a fast device busy, and an fsync \
         waits longer",
        Unit::bytes(0, 1 << 40),
        |c| (&mut c.lfs.in_flight_bytes).into(),
    ),
    Key::new(
        "eager-indirect",
        "write indirect blocks with every log write, as 4.4BSD does, not with \
         checkpoints only",
        Unit::YesNo,
        |c| (&mut c.lfs.eager_indirect).into(),
    ),
    Key::new(
        "writers-wait",
        "let writers wait while the log is being written, as 4.4BSD does",
        Unit::YesNo,
        |c| (&mut c.lfs.writers_wait).into(),
    ),
    Key::new(
        "lazy-fsync",
        "fsync returns before its data is durable, for comparisons only: a crash loses \
         synced data",
        Unit::YesNo,
        |c| (&mut c.lfs.lazy_fsync).into(),
    ),
    Key::new(
        "newest-first",
        "a log write begins with the files that became dirty last, as 4.4BSD's did before May 1995",
        Unit::YesNo,
        |c| (&mut c.lfs.gathering.newest_first).into(),
    ),
    Key::new(
        "inodes-with-files",
        "each partial segment has a block for the inodes of its own files, as in 4.4BSD",
        Unit::YesNo,
        |c| (&mut c.lfs.gathering.inodes_with_files).into(),
    ),
    Key::new(
        "log-copies",
        "the processor copies each block once more to write it to the log, and the cleaner what it \
         reads, as in 4.4BSD",
        Unit::YesNo,
        |c| (&mut c.lfs.copies).into(),
    ),
    Key::new(
        "discard",
        "segments that become clean are discarded; a bucket then deletes them, and an image file takes          less room",
        Unit::YesNo,
        |c| (&mut c.lfs.discard).into(),
    ),
];

impl DeclaredConfig for LfsConfig {
    const MAKING: &[Key<LfsConfig>] = MAKING;
    const OPENING: &[Key<LfsConfig>] = OPENING;

    fn writes(&self) -> &'static str {
        "gathers blocks of all files and writes them in one piece to the end of its log"
    }

    fn risk(&self) -> Option<&'static str> {
        self.lfs.lazy_fsync.then_some("data that was synced")
    }

    fn complete(&mut self, asked: &dyn Fn(&str) -> bool) {
        if !asked("frag") {
            self.mkfs.frag_size = Geometry::fragment_for(self.mkfs.block_size, self.mkfs.frag_size);
        }
    }

    async fn mkfs(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        identity: Identity,
    ) -> Result<String> {
        let Identity { uuid, root } = identity;
        let options = MkfsOptions { uuid, root, ..self.mkfs.clone() };
        let sb = Lfs::mkfs(rt, device, &options).await?;
        Ok(format!(
            "LFS, {:?} profile, {} in {} segments of {}, blocks of {}",
            sb.profile,
            bytes_for_people(sb.size()),
            sb.segments(),
            bytes_for_people(sb.segment_size.into()),
            bytes_for_people(sb.geometry.block_size.into()),
        ))
    }

    async fn open(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> Result<Opened> {
        let opening = Lfs::open(rt, device, cpu, settings, self.lfs.clone());
        let (volume, Recovered { log_writes, log_bytes, .. }) = opening.await?;
        let log = bytes_for_people(log_bytes);
        let recovery =
            (log_writes > 0).then(|| format!("recovered {log_writes} log writes ({log})"));
        Ok(Opened { volume: volume.volume, recovery })
    }
}

impl LayoutKind for LfsKind {
    fn name(&self) -> &'static str {
        "lfs"
    }

    fn noun(&self) -> &'static str {
        "a log-structured twinfs volume"
    }

    fn about(&self) -> &'static str {
        "log-structured: everything is written to the end of a log, and a cleaner makes room"
    }

    fn policies(&self) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
        let victims = victim::REGISTRY.abouts();
        let placements = placement::REGISTRY.iter().filter(|e| e.is_mountable());
        let placements = placements.map(|e| (e.name, e.about)).collect();
        let when = trigger::REGISTRY.abouts();
        vec![
            ("Victim policies", victims),
            ("Placement policies", placements),
            ("When the cleaner works", when),
        ]
    }

    fn is_log(&self) -> bool {
        true
    }

    fn config(&self) -> Box<dyn LayoutConfig> {
        Box::<LfsConfig>::default()
    }

    fn magic(&self) -> &'static [u8; 8] {
        crate::format::MAGIC
    }

    fn largest_sector<'a>(&'a self, _: &'a dyn BlockDevice) -> BoxFuture<'a, Option<u32>> {
        // A log writes no less than a sector, whatever its fragments are.
        Box::pin(std::future::ready(None))
    }

    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        how: CheckRequest,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> BoxFuture<'a, Result<CheckReport>> {
        Box::pin(async move {
            let mut report_progress = |p: check::Progress| progress(p.done, p.total);
            let options = CheckOptions { data: how.data };
            let report = match how.repair {
                true => check::repair(rt, device, &options, &mut report_progress).await?,
                false => check::check(rt, device, &options, &mut report_progress).await?,
            };
            Ok(report.into())
        })
    }

    fn without_contents<'a>(&'a self, device: &'a dyn BlockDevice) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut sb = read_superblock(device).await?;
            sb.without_contents = true;
            write_superblocks(device, &sb).await
        })
    }

    fn set_head<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        change: &'a HeadChange,
    ) -> BoxFuture<'a, Result<()>> {
        Lfs::set_head(rt, device, change)
    }

    fn differences<'a>(
        &'a self,
        from: &'a Volume,
        to: &'a Volume,
    ) -> BoxFuture<'a, Result<Vec<Difference>>> {
        Box::pin(crate::snapshots::differences(from, to))
    }

    fn shared<'a>(&'a self, from: &'a Volume, to: &'a Volume) -> Option<Box<dyn Shared + 'a>> {
        crate::snapshots::shared(from, to)
    }

    fn structures(&self) -> &'static [Structure] {
        dump::STRUCTURES
    }

    fn dump<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        request: &'a Request,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, std::result::Result<(), DumpError>> {
        dump::dump(rt, device, request, sink)
    }

    fn properties(&self, volume: &Volume) -> Vec<VolumeProperty> {
        let Some(lfs) = volume.layout_as::<Lfs>() else { return Vec::new() };
        let sb = lfs.superblock();
        let (used, limit) = lfs.space();
        let stat = volume.stat();
        let (clean, total) = lfs.with_segments(|s| (s.clean_count(), s.count()));
        let percent = used as f64 * 100.0 / limit as f64;
        let size = bytes_for_people;
        let (block, frag) =
            (size(sb.geometry.block_size.into()), size(sb.geometry.frag_size.into()));
        let segment = size(sb.segment_size.into());
        vec![
            VolumeProperty::new(
                "uuid",
                sb.uuid.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            ),
            VolumeProperty::new("layout", format!("LFS, {:?} profile", sb.profile)),
            VolumeProperty::new("size", size(sb.size())),
            VolumeProperty::new("block, fragment", format!("{block}, {frag}")),
            VolumeProperty::new("segments", format!("{total} of {segment}, {clean} clean")),
            VolumeProperty::new(
                "used",
                format!("{} of {} ({percent:.1}%)", size(used), size(limit)),
            ),
            VolumeProperty::new("inodes", format!("{} used", stat.inodes - stat.free_inodes)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_for_a_volume_that_exists_are_read_back() {
        let mut config = LFS.config();
        let text = "victim=greedy,placement=twin,when=idle,clean-step=64K,checkpoint-age=5s";
        for setting in text.split(',') {
            let (key, value) = setting.split_once('=').unwrap();
            config.set_for_open(key, value).unwrap();
        }
        assert_eq!(config.text(), text);
        assert!(config.set_for_open("frag", "1K").is_err(), "a volume has its fragments already");
        assert!(config.set("frag", "1K").is_ok());
    }

    #[test]
    fn a_mistake_is_told_with_what_there_is() {
        let mut config = LFS.config();
        for (key, value, word) in [
            ("victim", "best", "greedy"),
            ("placement", "fk", "sepbit"),
            ("speed", "1", "placement"),
            ("clean-step", "1", "4K"),
        ] {
            let error = config.set_for_open(key, value).unwrap_err().to_string();
            assert!(error.contains(word), "{key}={value}: {error}");
        }
    }
}
