//! Makes and opens volumes.

use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Class, Io, Origin, Overlay};
use twin_fs::{Core, Cpu, FsError, Opened, Picked, ROOT_INO, Result, Settings, VolumeOf};
use twin_rt::{BoxFuture, Rt};

use crate::check::check;
use crate::format::{CLEAN, IN_USE, Superblock};
use crate::inodes::Inodes;
use crate::layout::Vsfs;
use crate::space::Space;

/// The options of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of space for each inode.
    pub bytes_per_inode: u32,
    /// The number that distinguishes the volume from all others.
    pub uuid: [u8; 16],
    /// Owner, group and permission bits of the root directory.
    pub root: (u32, u32, u32),
}

impl MkfsOptions {
    /// The sizes of the book: blocks of 4 KiB.
    pub fn new(uuid: [u8; 16]) -> MkfsOptions {
        MkfsOptions { block_size: 4096, bytes_per_inode: 8192, uuid, root: (0, 0, 0o755) }
    }
}

impl Vsfs {
    /// Makes a new volume on a device. The superblock is written last, so that a crash before that
    /// leaves no volume.
    ///
    /// # Errors
    /// If the sizes do not fit, or the device fails.
    pub async fn mkfs(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        options: &MkfsOptions,
    ) -> Result<Superblock> {
        let info = device.info();
        if options.block_size < info.sector {
            return Err(FsError::Invalid("a block must not be smaller than the device's sector"));
        }
        let inodes = info.size / u64::from(options.bytes_per_inode.max(1));
        let sb = Superblock::plan(options.uuid, info.size, options.block_size, inodes)?;
        // Zeros in the bitmaps and the table mean that everything is free.
        let mut at = 0;
        while at < sb.byte_of(sb.data.into()) {
            let len = (sb.byte_of(sb.data.into()) - at).min(ZEROS);
            let zeros = vec![Block::Zero(len as u32)];
            device.submit(Io::write(at, zeros, Class::Meta, Origin::Checkpoint)).await?;
            at += len;
        }
        let (space, inodes) = (Space::empty(&sb), Inodes::empty(&sb));
        let settings = Settings::default();
        let volume = volume(rt, device, Cpu::none(), settings, sb.clone(), space, inodes)?;
        let (layout, core) = (&volume.layout, volume.core());
        // The root gets the first free number and is the first inode.
        let Picked { ino, generation } = layout.inodes.pick(core).await?;
        volume.make_root(Picked { ino, generation }, options.root.2)?;
        if let Some(root) = core.cached_inode(ROOT_INO) {
            let mut d = root.d.borrow_mut();
            (d.uid, d.gid) = (options.root.0, options.root.1);
        }
        // Closing writes all blocks, and then the superblock.
        volume.close().await?;
        Ok(sb)
    }

    /// Opens the volume on a device. A volume that was not unmounted is checked and repaired first,
    /// only in memory if it is opened read-only. Returns a description of the repair, if there was
    /// one.
    ///
    /// # Errors
    /// If there is no volume, it is damaged beyond repair, or the device fails.
    pub fn open(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move {
            let (volume, recovery) = Vsfs::open_as_vsfs(rt, device, cpu, settings).await?;
            Ok(Opened { volume: volume.volume, recovery })
        })
    }

    /// The same as [`open`](Self::open), with the type of the layout.
    ///
    /// # Errors
    /// As there.
    pub fn open_as_vsfs(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> BoxFuture<'_, Result<(VolumeOf<Vsfs>, Option<String>)>> {
        Box::pin(async move {
            let (sb, state) = Superblock::read(&*device).await?;
            let device: Rc<dyn BlockDevice> = match state != CLEAN && settings.read_only {
                true => Rc::new(Overlay::new(rt, device)),
                false => device,
            };
            let mut recovery = None;
            if state != CLEAN {
                let mut quiet = |_| {};
                let report = Box::pin(check(rt, Rc::clone(&device), true, &mut quiet)).await?;
                let found = report.findings.len() as u64 + report.more_findings;
                let rescued = report.rescued;
                let words = format!("{found} things repaired, {rescued} files put into lost+found");
                recovery = Some(words);
            }
            let volume = Vsfs::open_sound(rt, device, cpu, settings, sb).await?;
            Ok((volume, recovery))
        })
    }

    /// Opens a volume whose structures are consistent.
    pub(crate) async fn open_sound(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        sb: Superblock,
    ) -> Result<VolumeOf<Vsfs>> {
        let space = Space::read(&*device, &sb).await?;
        let inodes = Inodes::read(&*device, &sb).await?;
        if !settings.read_only {
            sb.write(&*device, IN_USE).await?;
        }
        volume(rt, device, cpu, settings, sb, space, inodes)
    }
}

/// The bytes of zeros that one request writes.
const ZEROS: u64 = 1 << 20;

fn volume(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    cpu: Cpu,
    settings: Settings,
    sb: Superblock,
    space: Space,
    inodes: Inodes,
) -> Result<VolumeOf<Vsfs>> {
    let core = Core::new(rt.clone(), device, cpu, sb.geometry(), sb.features(), settings)?;
    VolumeOf::new(core, Vsfs::new(sb, space, inodes))
}
