//! `twinfs mkfs`.
//!
//! Contract: nothing is written before the image is open and locked and is known to be blank, or
//! `--force` was given. A file is made larger only if it had no byte, and never smaller.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use rustix::fs::{FlockOperation, flock};
use twin_disk::{Block, BlockDevice, Class, DeviceInfo, Io, IoKind, Origin, Pending};
use twin_fs::{Identity, LayoutConfig, LayoutKind};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions, create_image, random_bytes};
use twin_lab::layouts::{LAYOUTS, layout};
use twin_mount::content::{self, must_be_blank};

use super::progress::Progress;
use super::{Failure, Interrupts, Outcome, say, usage};
use crate::cli::Mkfs;
use crate::size::Size;

/// The largest sector of an image file, in bytes.
const SECTOR: u64 = 4096;

/// The first bytes of a device, as a device.
struct Front {
    inner: FileDevice,
    size: u64,
    progress: Progress,
}

impl BlockDevice for Front {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size: self.size, ..self.inner.info() }
    }
    fn submit(&self, io: Io) -> Pending {
        if io.kind == IoKind::Write {
            self.progress.inc(io.len);
        }
        self.inner.submit(io)
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

pub(crate) fn run(args: &Mkfs, interrupts: &Interrupts) -> Outcome {
    let kind = layout(&args.layout).map_err(|error| error.to_string())?;
    let config = config(args, kind)?;
    let me = (rustix::process::geteuid(), rustix::process::getegid());
    let identity = Identity { uuid: random_bytes()?, root: (me.0.as_raw(), me.1.as_raw(), 0o755) };
    with_image(args, interrupts, |is_new| {
        let (host, device) = device(args, is_new)?;
        let making = config.mkfs(host.rt(), device, identity);
        let made = host.rt().block_on(making).map_err(|e| e.to_string())?;
        say(format!("{}: {}", args.image.display(), made.map_err(|e| e.to_string())?))
    })
}

/// What a new volume shall be.
fn config(args: &Mkfs, kind: &'static dyn LayoutKind) -> Result<Box<dyn LayoutConfig>, Failure> {
    let size = |size: Option<Size>| size.map(|size| size.0.to_string());
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    // The profile first: it sets the sizes that go with it.
    let options = [
        ("profile", "profile", args.profile.map(|profile| profile.name().to_string())),
        ("block-size", "block", size(args.block_size)),
        ("frag-size", "frag", size(args.frag_size)),
        ("segment-size", "segment", size(args.segment_size)),
        ("minfree", "minfree", number(args.minfree)),
        ("ordering", "ordering", args.ordering.clone()),
        ("bytes-per-inode", "bytes-per-inode", size(args.bytes_per_inode)),
    ];
    let mut config = kind.config();
    for (option, key, value) in &options {
        let Some(value) = value else { continue };
        let has = |kind: &dyn LayoutKind| kind.config().keys().iter().any(|k| k.name == *key);
        if let (false, Some(other)) = (has(kind), LAYOUTS.iter().find(|kind| has(**kind))) {
            return Err(usage(format!("--{option} is for --layout {}", other.name())));
        }
        config.set(key, value).map_err(|error| usage(format!("--{option}: {error}")))?;
    }
    let asked = |key: &str| options.iter().any(|(_, name, value)| *name == key && value.is_some());
    config.complete(&asked);
    Ok(config)
}

/// The file under a loop device, if a twinfs has it locked: the device itself does not tell.
fn busy_file_under(device: &std::fs::Metadata) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    let node = format!("/sys/dev/block/{major}:{minor}");
    // A partition's device lies below its disk.
    let places = [format!("{node}/loop/backing_file"), format!("{node}/../loop/backing_file")];
    let path = places.iter().find_map(|place| std::fs::read_to_string(place).ok())?;
    let path = path.trim_end_matches('\n');
    let file = std::fs::File::open(path).ok()?;
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    locked.then(|| path.into())
}

/// What the image was before, and so what is taken back if no volume can be made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A file of no bytes.
    Empty,
    Something,
}

/// Makes the image if it does not exist or is empty, then the volume in it; takes back what it has
/// made itself if that fails.
fn with_image(
    args: &Mkfs,
    interrupts: &Interrupts,
    make: impl FnOnce(bool) -> Result<(), String>,
) -> Outcome {
    let image = args.image.display();
    let before = before(args)?;
    let size = || args.size.ok_or_else(|| usage("say how large the new image shall be: --size 4G"));
    let path = args.image.clone();
    let _undoing = (before != Before::Something).then(|| {
        interrupts.undo(move || match before {
            Before::Nothing => drop(std::fs::remove_file(&path)),
            _ => drop(resize(&path, 0)),
        })
    });
    match before {
        Before::Nothing => create_image(&args.image, size()?.0).map_err(|e| e.to_string())?,
        Before::Empty => resize(&args.image, size()?.0).map_err(|e| format!("{image}: {e}"))?,
        Before::Something => {}
    }
    let made = make(before != Before::Something).and_then(|()| interrupts.check());
    match (&made, before) {
        (Err(_), Before::Nothing) => drop(std::fs::remove_file(&args.image)),
        (Err(_), Before::Empty) => drop(resize(&args.image, 0)),
        _ => {}
    }
    made?;
    Ok(ExitCode::SUCCESS)
}

fn before(args: &Mkfs) -> Result<Before, String> {
    let image = args.image.display();
    let meta = match std::fs::metadata(&args.image) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match args.image.is_symlink() {
                true => Err(format!("{image} is a symbolic link to nothing: name its target")),
                false => Ok(Before::Nothing),
            };
        }
        Err(error) => return Err(format!("{image}: {error}")),
    };
    if meta.is_dir() {
        return Err(format!("{image} is a directory: name an image file in it, or a block device"));
    }
    if meta.is_file()
        && let Some(device) = loop_device_of(&meta)
    {
        return Err(format!(
            "{image} is in use as /dev/{device}: detach it (losetup -d /dev/{device}), or make the \
             volume on that device"
        ));
    }
    if meta.file_type().is_block_device()
        && let Some(file) = busy_file_under(&meta)
    {
        return Err(format!(
            "{image} is a loop device over {file}, which another process has open as an image: \
             unmount that first"
        ));
    }
    Ok(if meta.is_file() && meta.len() == 0 { Before::Empty } else { Before::Something })
}

fn resize(image: &Path, size: u64) -> std::io::Result<()> {
    std::fs::File::options().write(true).open(image)?.set_len(size)
}

/// The loop device that a file is attached to: it has pages of the file of its own, and perhaps
/// it is mounted.
fn loop_device_of(file: &std::fs::Metadata) -> Option<String> {
    let same = |path: &str| {
        let other = std::fs::metadata(path).ok();
        other.is_some_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
    };
    let devices = std::fs::read_dir("/sys/block").ok()?;
    devices.flatten().find_map(|device| {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        same(backing.trim_end_matches('\n')).then(|| device.file_name().to_string_lossy().into())
    })
}

/// The image or device, as large as it was asked for, locked and known to be blank.
fn device(args: &Mkfs, is_new: bool) -> Result<(Host, Rc<dyn BlockDevice>), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let progress = Progress::of_bytes("volume made, bytes written", 0);
    let inner = FileDevice::open(&host, &args.image, &ImageOptions::default());
    let inner = inner.map_err(|e| e.to_string())?;
    check_blank(args, is_new)?;
    let whole = inner.info().size;
    let mut size = args.size.map_or(whole, |size| size.0);
    // What does not fill a sector is left out.
    if (whole..whole + SECTOR).contains(&size) {
        size = whole;
    }
    if size > whole {
        let (size, whole, image) = (Size(size), Size(whole), args.image.display());
        return Err(format!(
            "--size {size} is more than {image} has: {whole}. Leave --size out to use all of it, \
             enlarge it first, or choose another name"
        ));
    }
    if size < whole {
        let (rest, image) = (Size(whole - size), args.image.display());
        say(format!("{image}: the last {rest} stay as they are"))?;
    }
    let device: Rc<dyn BlockDevice> = Rc::new(Front { inner, size, progress });
    if args.force && !is_new {
        erase_marks(args, &host, &*device)?;
    }
    Ok((host, device))
}

/// Erases the signatures of what is overwritten, as far as the volume reaches: a new volume leaves
/// most of the old bytes where they are, and a copy of a superblock among them would make other
/// programs take it for what it was.
fn erase_marks(args: &Mkfs, host: &Host, device: &dyn BlockDevice) -> Result<(), String> {
    let in_image = |why: &dyn std::fmt::Display| format!("{}: {why}", args.image.display());
    let size = device.info().size / SECTOR * SECTOR;
    let marks = content::marks(&args.image).map_err(|error| in_image(&error))?;
    let mut sectors: Vec<u64> = marks.iter().map(|at| at / SECTOR * SECTOR).collect();
    sectors.dedup();
    for at in sectors.into_iter().filter(|&at| at < size) {
        let zeros = vec![Block::Zero(SECTOR as u32)];
        let write = device.submit(Io::write(at, zeros, Class::Meta, Origin::User));
        let written = host.rt().block_on(write).map_err(|e| e.to_string())?;
        written.map_err(|error| in_image(&error))?;
    }
    Ok(())
}

/// Refuses an image that is not blank, unless it is to be overwritten. The image is open and
/// locked, so nobody else changes it.
fn check_blank(args: &Mkfs, is_new: bool) -> Result<(), String> {
    if is_new || args.force { Ok(()) } else { must_be_blank(&args.image) }
}
