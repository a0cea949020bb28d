//! The entry of this layout in the registry of layouts, and its settings.

use std::rc::Rc;

use twin_check::Progress;
use twin_disk::BlockDevice;
use twin_fs::dump::{DumpError, Request, Sink, Structure};
use twin_fs::{
    CheckReport, CheckRequest, Cpu, DeclaredConfig, FsError, Identity, LayoutConfig, LayoutKind,
    Opened, Result, Settings, Volume, VolumeProperty,
};
use twin_rt::{BoxFuture, Rt};
use twin_settings::value::bytes_for_people as size;
use twin_settings::{Key, Unit};

use crate::check::check;
use crate::dump::{STRUCTURES, dump};
use crate::format::{MAGIC, Superblock};
use crate::layout::Vsfs;
use crate::open::MkfsOptions;

/// The very simple file system.
pub const VSFS: &dyn LayoutKind = &VsfsKind;

struct VsfsKind;

/// How volumes are made. Nothing can be set when one is opened.
#[derive(Clone, Debug)]
pub struct VsfsConfig {
    /// How a volume is made.
    pub mkfs: MkfsOptions,
}

impl Default for VsfsConfig {
    fn default() -> Self {
        // Simulated volumes need no identity, and equal runs must be equal.
        VsfsConfig { mkfs: MkfsOptions::new(*b"twinfs simulated") }
    }
}

const MAKING: &[Key<VsfsConfig>] = &[
    Key::new(
        "block",
        "bytes of a block, 1K to 64K; larger blocks need less metadata and waste more \
         space in small files",
        Unit::bytes(1024, 65_536),
        |c| (&mut c.mkfs.block_size).into(),
    ),
    Key::new(
        "bytes-per-inode",
        "bytes of space per inode; fewer bytes allow more files",
        Unit::bytes(256, 1 << 31),
        |c| (&mut c.mkfs.bytes_per_inode).into(),
    ),
];

const OPENING: &[Key<VsfsConfig>] = &[];

impl DeclaredConfig for VsfsConfig {
    const MAKING: &[Key<VsfsConfig>] = MAKING;
    const OPENING: &[Key<VsfsConfig>] = OPENING;

    fn risk(&self) -> Option<&'static str> {
        Some("names and files that were synced: this layout orders nothing")
    }

    async fn mkfs(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        identity: Identity,
    ) -> Result<String> {
        let Identity { uuid, root } = identity;
        let options = MkfsOptions { uuid, root, ..self.mkfs.clone() };
        let sb = Vsfs::mkfs(rt, device, &options).await?;
        Ok(format!(
            "vsfs, {} in {} blocks of {}, {} inodes",
            size(sb.byte_of(sb.blocks.into())),
            sb.blocks,
            size(sb.block_size.into()),
            sb.inodes
        ))
    }

    async fn open(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> Result<Opened> {
        Vsfs::open(rt, device, cpu, settings).await
    }
}

impl LayoutKind for VsfsKind {
    fn name(&self) -> &'static str {
        "vsfs"
    }

    fn noun(&self) -> &'static str {
        "a vsfs twinfs volume"
    }

    fn about(&self) -> &'static str {
        "very simple: bitmaps, a table of inodes, data, as in OSTEP; no ordering at all"
    }

    fn policies(&self) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
        Vec::new()
    }

    fn config(&self) -> Box<dyn LayoutConfig> {
        Box::<VsfsConfig>::default()
    }

    fn magic(&self) -> &'static [u8; 8] {
        MAGIC
    }

    fn largest_sector<'a>(&'a self, device: &'a dyn BlockDevice) -> BoxFuture<'a, Option<u32>> {
        // Blocks are written alone, so a sector must not be larger.
        Box::pin(async {
            let raw = crate::format::read(device, 0, device.info().sector.into()).await.ok()?;
            Some(Superblock::decode(&raw, device.info().size).ok()?.0.block_size)
        })
    }

    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        how: CheckRequest,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> BoxFuture<'a, Result<CheckReport>> {
        Box::pin(async move {
            if how.data {
                return Err(FsError::Invalid("a vsfs volume has no checksums: leave out --data"));
            }
            let mut report_progress = |p: Progress| progress(p.done, p.total);
            Ok(check(rt, device, how.repair, &mut report_progress).await?.into())
        })
    }

    fn structures(&self) -> &'static [Structure] {
        STRUCTURES
    }

    fn dump<'a>(
        &'a self,
        _rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        request: &'a Request,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<(), DumpError>> {
        Box::pin(dump(device, request, sink))
    }

    fn properties(&self, volume: &Volume) -> Vec<VolumeProperty> {
        let Some(vsfs) = volume.layout_as::<Vsfs>() else { return Vec::new() };
        let (sb, stat) = (vsfs.superblock(), volume.stat());
        let used = stat.blocks - stat.free;
        let percent = used as f64 * 100.0 / stat.blocks as f64;
        vec![
            VolumeProperty::new(
                "uuid",
                sb.uuid.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            ),
            VolumeProperty::new("layout", "vsfs"),
            VolumeProperty::new("size", size(sb.byte_of(sb.blocks.into()))),
            VolumeProperty::new("block", size(sb.block_size.into())),
            VolumeProperty::new(
                "used",
                format!("{used} of {} data blocks ({percent:.1}%)", stat.blocks),
            ),
            VolumeProperty::new(
                "inodes",
                format!("{} used of {}", stat.inodes - stat.free_inodes, stat.inodes),
            ),
        ]
    }
}
