//! The clustered layout's entry in the registry of layouts, and its settings.

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::dump::{DumpError, Request, Sink, Structure};
use twin_fs::geometry::Geometry;
use twin_fs::{
    CheckReport, CheckRequest, Cpu, DeclaredConfig, FsError, Identity, LayoutConfig, LayoutKind,
    Opened, Result, Settings, Volume, VolumeProperty,
};
use twin_rt::{BoxFuture, Rt};
use twin_settings::value::{bytes_for_people, list, number};
use twin_settings::{Key, SettingsError, Unit};

use crate::check;
use crate::ffs::Ffs;
use crate::format::{DiskGeometry, Profile, read_superblock};
use crate::free_map::copy_used;
use crate::open::{MkfsOptions, Recovered};
use crate::settings::FfsSettings;
use crate::sums::Summed;
use crate::{allocation, dir_placement, dump, ordering, write_behind};

/// The clustered fast-file-system layout.
pub const FFS: &dyn LayoutKind = &FfsKind;

struct FfsKind;

/// How clustered volumes are made and opened.
#[derive(Clone, Debug)]
pub struct FfsConfig {
    /// How a volume is made.
    pub mkfs: MkfsOptions,
    /// How a volume is opened.
    pub ffs: FfsSettings,
}

impl Default for FfsConfig {
    fn default() -> Self {
        // Simulated volumes need no identity, and equal runs must be equal.
        let mkfs = MkfsOptions::modern(*b"twinfs simulated");
        FfsConfig { mkfs, ffs: FfsSettings::default() }
    }
}

fn small(text: &str) -> std::result::Result<u32, SettingsError> {
    let too_large = |_| SettingsError::new(format!("{text} is too large"));
    u32::try_from(number(text)?).map_err(too_large)
}

const MAKING: &[Key<FfsConfig>] = &[
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
        "ordering",
        "the order in which metadata is written: by a journal, synchronously, or without \
         any",
        Unit::Name("ordering", || ordering::REGISTRY.names().collect()),
        |c| (&mut c.mkfs.ordering).into(),
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
        "bytes-per-inode",
        "bytes of space per inode; fewer bytes allow more files",
        Unit::bytes(0, 1 << 31),
        |c| (&mut c.mkfs.bytes_per_inode).into(),
    ),
    Key::new(
        "minfree",
        "share of the space that is kept free; 5% to 10% are sensible: more keeps files \
         in one piece",
        Unit::Percent(50),
        |c| (&mut c.mkfs.tuning.minfree).into(),
    ),
    Key::new(
        "maxcontig",
        "blocks laid out, read and written at once; 1 switches clustering off, 7 to 128 \
         are usual",
        Unit::number(1, u32::MAX as u64),
        |c| (&mut c.mkfs.tuning.maxcontig).into(),
    ),
    Key::new(
        "rotdelay",
        "milliseconds of the gap behind maxcontig blocks; 0 for every disk with a track \
         buffer",
        Unit::number(0, u32::MAX as u64),
        |c| (&mut c.mkfs.tuning.rotdelay_ms).into(),
    ),
    Key::new(
        "maxbpg",
        "blocks that a file may take from one group before it goes on in another",
        Unit::number(1, u32::MAX as u64),
        |c| (&mut c.mkfs.tuning.maxbpg).into(),
    ),
    Key::new(
        "cpc",
        "cylinders after which rotational positions repeat; 0 ignores rotational \
         positions",
        Unit::number(0, u32::MAX as u64),
        |c| (&mut c.mkfs.tuning.cpc).into(),
    ),
    Key::new("group", "bytes of a cylinder group", Unit::bytes(0, 1 << 60), |c| {
        (&mut c.mkfs.group_bytes).into()
    }),
    Key::new(
        "data-checksums",
        "checksums of all data and metadata, compared whenever they are read; takes 0.4% of the space",
        Unit::YesNo,
        |c| (&mut c.mkfs.data_checksums).into(),
    ),
    Key::own(
        "geometry",
        "the disk that the allocator assumes, whatever the disk is",
        "rpm/sectors/tracks",
        |c, text| {
            let [rpm, sectors, tracks] = list(text, "rpm/sectors/tracks")?;
            c.mkfs.disk_geometry = DiskGeometry {
                rpm: small(rpm)?,
                sectors_per_track: small(sectors)?,
                tracks_per_cylinder: small(tracks)?,
            };
            Ok(())
        },
        |c| {
            let DiskGeometry { rpm, sectors_per_track, tracks_per_cylinder } = c.mkfs.disk_geometry;
            format!("{rpm}/{sectors_per_track}/{tracks_per_cylinder}")
        },
    ),
];

const OPENING: &[Key<FfsConfig>] = &[
    Key::new(
        "write-behind",
        "policy that chooses the blocks to write before the flush policy asks",
        Unit::Name("write-behind", || write_behind::REGISTRY.names().collect()),
        |c| (&mut c.ffs.write_behind).into(),
    ),
    Key::new(
        "alloc",
        "policy that chooses the places of blocks",
        Unit::Name("allocation", || allocation::REGISTRY.names().collect()),
        |c| (&mut c.ffs.allocation).into(),
    ),
    Key::new(
        "dir-placement",
        "policy that chooses the group of a new directory",
        Unit::Name("placement", || dir_placement::REGISTRY.names().collect()),
        |c| (&mut c.ffs.dir_placement).into(),
    ),
    Key::new(
        "reallocate",
        "move the blocks of a growing file together before they are written",
        Unit::YesNo,
        |c| (&mut c.ffs.reallocate).into(),
    ),
    Key::new(
        "lazy-fsync",
        "fsync returns before its data is durable, for comparisons only: a crash loses \
         synced data",
        Unit::YesNo,
        |c| (&mut c.ffs.lazy_fsync).into(),
    ),
];

impl DeclaredConfig for FfsConfig {
    const MAKING: &[Key<FfsConfig>] = MAKING;
    const OPENING: &[Key<FfsConfig>] = OPENING;

    fn writes(&self) -> &'static str {
        let ordering = ordering::REGISTRY.get(&self.mkfs.ordering);
        ordering.map_or("writes blocks to their own places", |ordering| ordering.writes)
    }

    fn risk(&self) -> Option<&'static str> {
        let ordering =
            ordering::REGISTRY.get(&self.mkfs.ordering).ok().and_then(|known| known.risk);
        ordering.or_else(|| self.ffs.lazy_fsync.then_some("data that was synced"))
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
        let sb = Ffs::mkfs(rt, device, &options).await?;
        Ok(format!(
            "FFS, {:?} profile, {} ordering, {} in {} groups, blocks of {}, {} inodes",
            sb.profile,
            options.ordering,
            bytes_for_people(sb.size),
            sb.groups,
            bytes_for_people(sb.geometry.block_size.into()),
            sb.inodes(),
        ))
    }

    async fn open(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> Result<Opened> {
        let opening = Ffs::open(rt, device, cpu, settings, self.ffs.clone());
        let (volume, recovered) = opening.await?;
        Ok(Opened { volume: volume.volume, recovery: recovery(&recovered) })
    }
}

/// What opening had to do first, in words.
fn recovery(r: &Recovered) -> Option<String> {
    r.was_open.then(|| {
        format!(
            "replayed {} records ({}), {} things repaired, {} files put into lost+found",
            r.records,
            bytes_for_people(r.journal_bytes),
            r.repaired,
            r.rescued
        )
    })
}

impl LayoutKind for FfsKind {
    fn name(&self) -> &'static str {
        "ffs"
    }

    fn noun(&self) -> &'static str {
        "an FFS twinfs volume"
    }

    fn about(&self) -> &'static str {
        "clustered: cylinder groups, blocks and fragments, written in place, as in 4.4BSD"
    }

    fn policies(&self) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
        let orderings = ordering::REGISTRY.abouts();
        let behind = write_behind::REGISTRY.abouts();
        let dirs = dir_placement::REGISTRY.abouts();
        vec![
            ("Orderings", orderings),
            ("Allocation policies", allocation::REGISTRY.abouts()),
            ("Write-behind policies", behind),
            ("Placement of directories", dirs),
        ]
    }

    fn config(&self) -> Box<dyn LayoutConfig> {
        Box::<FfsConfig>::default()
    }

    fn magic(&self) -> &'static [u8; 8] {
        crate::format::MAGIC
    }

    fn largest_sector<'a>(&'a self, device: &'a dyn BlockDevice) -> BoxFuture<'a, Option<u32>> {
        // Fragments are written alone, so a sector must not be larger.
        Box::pin(async { Some(read_superblock(device).await.ok()?.geometry.frag_size) })
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
            let mut report = match (how.repair, how.data) {
                (true, true) => {
                    return Err(FsError::Invalid(
                        "a repair of FFS leaves data that does not match as it is, an error for its \
                         readers: --data is for checks",
                    ));
                }
                (true, false) => check::repair(rt, device, &mut report_progress).await?,
                (false, true) => check::check_data(device, &mut report_progress).await?,
                (false, false) => check::check(device, &mut report_progress).await?,
            };
            let size = bytes_for_people;
            let (used, free) = (report.counts.used_bytes, report.counts.free_bytes);
            report.notes.push(format!("{} used, {} free", size(used), size(free)));
            Ok(report.into())
        })
    }

    fn structures(&self) -> &'static [Structure] {
        dump::STRUCTURES
    }

    fn without_contents<'a>(&'a self, device: &'a dyn BlockDevice) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let sb = read_superblock(device).await?;
            match sb.data_checksums {
                // What is there is taken as it is when the volume is opened.
                true => Summed::doubt_all(device, &sb).await,
                false => Ok(()),
            }
        })
    }

    fn copy_used<'a>(
        &'a self,
        from: &'a dyn BlockDevice,
        to: &'a dyn BlockDevice,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(copy_used(from, to))
    }

    fn dump<'a>(
        &'a self,
        _rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        request: &'a Request,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, std::result::Result<(), DumpError>> {
        dump::dump(device, request, sink)
    }

    fn properties(&self, volume: &Volume) -> Vec<VolumeProperty> {
        let Some(ffs) = volume.layout_as::<Ffs>() else { return Vec::new() };
        let sb = ffs.superblock();
        let (used, limit) = ffs.space();
        let (blocks, free) = ffs.free_space();
        let stat = volume.stat();
        let percent = used as f64 * 100.0 / limit as f64;
        let size = bytes_for_people;
        let block = u64::from(sb.geometry.block_size);
        let ordering = ordering::by_number(sb.ordering).map_or("unknown", |e| e.name);
        let group = u64::from(sb.group_frags) * u64::from(sb.geometry.frag_size);
        let loose = free.saturating_sub(blocks * block);
        let mut properties = vec![
            VolumeProperty::new(
                "uuid",
                sb.uuid.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            ),
            VolumeProperty::new(
                "layout",
                format!("FFS, {:?} profile, {ordering} ordering", sb.profile),
            ),
            VolumeProperty::new("size", size(sb.size)),
            VolumeProperty::new(
                "block, fragment",
                format!("{}, {}", size(block), size(sb.geometry.frag_size.into())),
            ),
            VolumeProperty::new("groups", format!("{} of {}", sb.groups, size(group))),
        ];
        if sb.data_checksums {
            properties.push(VolumeProperty::new("checksums", "of all data and metadata"));
        }
        if sb.journal_bytes > 0 {
            properties.push(VolumeProperty::new("journal", size(sb.journal_bytes)));
        }
        properties.extend([
            VolumeProperty::new(
                "used",
                format!("{} of {} ({percent:.1}%)", size(used), size(limit)),
            ),
            VolumeProperty::new(
                "free",
                format!("{}, of this {} in fragments", size(free), size(loose)),
            ),
            VolumeProperty::new(
                "inodes",
                format!("{} used of {}", stat.inodes - stat.free_inodes, stat.inodes),
            ),
        ]);
        properties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_for_a_volume_that_exists_are_read_back() {
        let mut config = FFS.config();
        for (key, value) in [("reallocate", "no"), ("lazy-fsync", "yes")] {
            config.set_for_open(key, value).unwrap();
        }
        assert_eq!(config.text(), "reallocate=no,lazy-fsync=yes");
        assert!(config.set_for_open("ordering", "sync").is_err(), "that is in the superblock");
        config.set("geometry", "5400/57/14").unwrap();
        let error = config.set("geometry", "5400/57").unwrap_err().to_string();
        assert_eq!(error, "geometry: \"5400/57\" is not rpm/sectors/tracks");
    }
}
