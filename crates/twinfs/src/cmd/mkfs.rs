//! `twinfs mkfs`.

use std::process::ExitCode;
use std::rc::Rc;

use twin_disk::{BlockDevice, DeviceInfo, Io, Pending};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions, create_image};
use twin_lfs::{Lfs, MkfsOptions, read_superblock};

use super::{Outcome, random_bytes, say};
use crate::cli::{Layout, Mkfs, Profile};
use crate::size::Size;

/// The largest sector of an image file, in bytes.
const SECTOR: u64 = 4096;

/// The first bytes of a device, as a device.
struct Front {
    inner: FileDevice,
    size: u64,
}

impl BlockDevice for Front {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size: self.size, ..self.inner.info() }
    }
    fn submit(&self, io: Io) -> Pending {
        self.inner.submit(io)
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

pub(crate) fn run(args: &Mkfs) -> Outcome {
    match args.layout {
        Layout::Lfs => {
            if args.ordering.is_some() || args.bytes_per_inode.is_some() {
                return Err("--ordering and --bytes-per-inode are for --layout ffs".into());
            }
            let options = options(args)?;
            with_image(args, |is_new| make(args, &options, is_new))
        }
        Layout::Ffs => {
            let options = super::ffs::options(args)?;
            with_image(args, |is_new| super::ffs::make(args, &options, is_new))
        }
    }
}

/// Makes the image if it does not exist, then the volume in it; takes back an image of its own if
/// that fails.
fn with_image(args: &Mkfs, make: impl FnOnce(bool) -> Result<(), String>) -> Outcome {
    let is_new = !args.image.exists();
    if is_new {
        let size = args.size.ok_or("say how large the new image shall be: --size 4G")?;
        create_image(&args.image, size.0).map_err(|e| e.to_string())?;
    }
    let made = make(is_new);
    if made.is_err() && is_new {
        let _ = std::fs::remove_file(&args.image);
    }
    made?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Mkfs) -> Result<MkfsOptions, String> {
    let uuid = random_bytes()?;
    let base = match args.profile {
        Profile::Modern => MkfsOptions::modern(uuid),
        Profile::Classic => MkfsOptions::classic(uuid),
    };
    let small = |size: Size, what: &str| {
        u32::try_from(size.0).map_err(|_| format!("--{what} {size} is too large"))
    };
    let me = (rustix::process::geteuid(), rustix::process::getegid());
    Ok(MkfsOptions {
        block_size: match args.block_size {
            Some(size) => small(size, "block-size")?,
            None => base.block_size,
        },
        frag_size: match args.frag_size {
            Some(size) => small(size, "frag-size")?,
            None => base.frag_size,
        },
        segment_size: match args.segment_size {
            Some(size) => Some(small(size, "segment-size")?),
            None => base.segment_size,
        },
        minfree: args.minfree.unwrap_or(base.minfree),
        root: (me.0.as_raw(), me.1.as_raw(), 0o755),
        ..base
    })
}

fn make(args: &Mkfs, options: &MkfsOptions, is_new: bool) -> Result<(), String> {
    let (host, device) = device(args)?;
    let rt = host.rt().clone();
    let work = async {
        check_empty(args, &*device, is_new).await?;
        Lfs::mkfs(&rt, Rc::clone(&device), options).await.map_err(|e| e.to_string())
    };
    let sb = host.rt().block_on(work).map_err(|e| e.to_string())??;
    say(format!(
        "{}: LFS, {:?} profile, {} in {} segments of {}, blocks of {}",
        args.image.display(),
        sb.profile,
        Size(sb.size),
        sb.segments,
        Size(sb.segment_size.into()),
        Size(sb.shape.block_size.into()),
    ))?;
    Ok(())
}

/// The image or device as large as it was asked for.
pub(super) fn device(args: &Mkfs) -> Result<(Host, Rc<dyn BlockDevice>), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let inner = FileDevice::open(&host, &args.image, &ImageOptions::default());
    let inner = inner.map_err(|e| e.to_string())?;
    let whole = inner.info().size;
    let mut size = args.size.map_or(whole, |size| size.0);
    // What does not fill a sector is left out.
    if (whole..whole + SECTOR).contains(&size) {
        size = whole;
    }
    if size > whole {
        let (size, whole) = (Size(size), Size(whole));
        return Err(format!("--size {size} is more than {} has: {whole}", args.image.display()));
    }
    let device: Rc<dyn BlockDevice> = Rc::new(Front { inner, size });
    Ok((host, device))
}

/// Refuses an image that holds a volume of any layout, unless that is to be overwritten.
pub(super) async fn check_empty(
    args: &Mkfs,
    device: &dyn BlockDevice,
    is_new: bool,
) -> Result<(), String> {
    if is_new || args.force {
        return Ok(());
    }
    let any = read_superblock(device).await.is_ok()
        || twin_ffs::format::read_superblock(device).await.is_ok();
    match any {
        true => {
            let image = args.image.display();
            Err(format!("{image} holds a twinfs volume already: --force overwrites it"))
        }
        false => Ok(()),
    }
}
