//! Making a volume in an image file or on a device.
//!
//! Contract: nothing is written before the image is open and locked and is known to be blank, or overwriting was
//! asked for. A file is made larger only if it had no byte, and never smaller. What was made for a volume that
//! cannot be made is taken back, also after an interrupt.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use twin_disk::{
    Block, BlockDevice, Class, DeviceInfo, Io, IoError, IoErrorKind, IoKind, Origin, Pending,
};
use twin_fs::{Identity, LayoutConfig};
use twin_host::{
    Bar, Count, FileDevice, Host, HostOptions, ImageOptions, Interrupts, Progress, create_image,
    random_bytes,
};
use twin_settings::value::bytes_for_people;

use crate::content::{self, must_be_blank};
use crate::media::{self, Compression, KeyFrom, Media, Medium, NewMedium};

/// The largest sector of an image file, in bytes.
const SECTOR: u64 = 4096;

/// What is made where.
pub struct MakeRequest {
    /// The image file, which may not exist yet, or block device.
    pub image: PathBuf,
    /// Bytes of the volume; `None`: all of the image.
    pub size: Option<u64>,
    /// Whether an image that is not blank is overwritten.
    pub force: bool,
    /// How it is compressed, on a medium, if it is.
    pub compression: Option<Compression>,
    /// With which key it is encrypted, on a medium, if it is.
    pub key: Option<KeyFrom>,
    /// What the volume shall be.
    pub config: Box<dyn LayoutConfig>,
}

/// Why no volume was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMade {
    /// The image is new, and its size was not given.
    NoSize,
    /// In words.
    Why(String),
}

impl From<String> for NotMade {
    fn from(why: String) -> NotMade {
        NotMade::Why(why)
    }
}

/// Who is told what was made.
pub type Say<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Makes a volume, which belongs to the user of this process.
///
/// # Errors
/// If the image is not blank, in use or too small, or the volume cannot be made.
pub fn make(
    request: &MakeRequest,
    interrupts: &Interrupts,
    progress: &dyn Progress,
    say: Say<'_>,
) -> Result<(), NotMade> {
    let me = (rustix::process::geteuid(), rustix::process::getegid());
    let identity = Identity { uuid: random_bytes()?, root: (me.0.as_raw(), me.1.as_raw(), 0o755) };
    if let Some((media, name)) = media::of(&request.image)? {
        return make_on_medium(media, name, request, identity, say);
    }
    with_image(request, interrupts, |is_new| {
        let (host, device) = device(request, is_new, interrupts, progress, say)?;
        let making = request.config.mkfs(host.rt(), device, identity);
        let made = host.rt().block_on(making).map_err(|e| e.to_string())?;
        say(&format!("{}: {}", request.image.display(), made.map_err(|e| e.to_string())?))
    })
}

/// Makes a volume where there is none, on a medium of its own.
fn make_on_medium(
    media: &dyn Media,
    name: &str,
    request: &MakeRequest,
    identity: Identity,
    say: Say<'_>,
) -> Result<(), NotMade> {
    if request.force {
        return Err(format!("{name}: --force is for images on this machine; a bucket's objects are deleted by its own tools").into());
    }
    let size = request.size.ok_or(NotMade::NoSize)?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let new = NewMedium { size, compression: request.compression, key: request.key.clone() };
    let Medium { device, close, .. } = media.make(&host, name, new)?;
    let making = request.config.mkfs(host.rt(), device, identity);
    let made = host.rt().block_on(making).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    media::end(&host, Some(close))?;
    Ok(say(&format!("{name}: {made}"))?)
}

/// The first bytes of a device, as a device. After an interrupt it takes nothing more.
struct Front {
    inner: FileDevice,
    size: u64,
    bar: Bar,
    interrupts: Interrupts,
}

impl BlockDevice for Front {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size: self.size, ..self.inner.info() }
    }
    fn submit(&self, io: Io) -> Pending {
        if let Err(why) = self.interrupts.check() {
            let kind = IoErrorKind::Other(why);
            return Pending::ready(Err(IoError { op: io.kind, at: io.at, len: io.len, kind }));
        }
        if io.kind == IoKind::Write {
            self.bar.add(io.len);
        }
        self.inner.submit(io)
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
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
    request: &MakeRequest,
    interrupts: &Interrupts,
    make: impl FnOnce(bool) -> Result<(), String>,
) -> Result<(), NotMade> {
    let image = request.image.display();
    let before = before(request)?;
    let size = || request.size.ok_or(NotMade::NoSize);
    // Locked while the image is made and written: a write under way makes a file that was cut long again.
    let making = Arc::new(Mutex::new(()));
    let (path, made_by_now) = (request.image.clone(), Arc::clone(&making));
    let _undoing = (before != Before::Something).then(|| {
        interrupts.undo(move || {
            let _made = made_by_now.lock().unwrap_or_else(PoisonError::into_inner);
            take_back(&path, before);
        })
    });
    let made = {
        let _making = making.lock().unwrap_or_else(PoisonError::into_inner);
        interrupts.check()?;
        match before {
            Before::Nothing => create_image(&request.image, size()?).map_err(|e| e.to_string())?,
            Before::Empty => {
                resize(&request.image, size()?).map_err(|e| format!("{image}: {e}"))?
            }
            Before::Something => {}
        }
        make(before != Before::Something).and_then(|()| interrupts.check())
    };
    if made.is_err() {
        take_back(&request.image, before);
    }
    Ok(made?)
}

/// Makes the image what it was, if it was nothing or empty.
fn take_back(image: &Path, before: Before) {
    match before {
        Before::Nothing => drop(std::fs::remove_file(image)),
        Before::Empty => drop(resize(image, 0)),
        Before::Something => {}
    }
}

fn before(request: &MakeRequest) -> Result<Before, String> {
    let image = request.image.display();
    let meta = match std::fs::metadata(&request.image) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match request.image.is_symlink() {
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
fn device(
    request: &MakeRequest,
    is_new: bool,
    interrupts: &Interrupts,
    progress: &dyn Progress,
    say: Say<'_>,
) -> Result<(Host, Rc<dyn BlockDevice>), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let bar = progress.begin("volume made, bytes written", Count::Bytes(0));
    let inner = FileDevice::open(&host, &request.image, &ImageOptions::default());
    let inner = inner.map_err(|e| e.to_string())?;
    check_blank(request, is_new)?;
    let whole = inner.info().size;
    let mut size = request.size.unwrap_or(whole);
    // What does not fill a sector is left out.
    if (whole..whole + SECTOR).contains(&size) {
        size = whole;
    }
    if size > whole {
        let image = request.image.display();
        let [size, whole] = [size, whole].map(bytes_for_people);
        return Err(format!(
            "--size {size} is more than {image} has: {whole}. Leave --size out to use all of it, \
             enlarge it first, or choose another name"
        ));
    }
    if size < whole {
        let (rest, image) = (bytes_for_people(whole - size), request.image.display());
        say(&format!("{image}: the last {rest} stay as they are"))?;
    }
    let device: Rc<dyn BlockDevice> =
        Rc::new(Front { inner, size, bar, interrupts: interrupts.clone() });
    if request.force && !is_new {
        erase_marks(request, &host, &*device)?;
    }
    Ok((host, device))
}

/// Erases the signatures of what is overwritten, as far as the volume reaches: a new volume leaves
/// most of the old bytes where they are, and a copy of a superblock among them would make other
/// programs take it for what it was.
fn erase_marks(request: &MakeRequest, host: &Host, device: &dyn BlockDevice) -> Result<(), String> {
    let in_image = |why: &dyn std::fmt::Display| format!("{}: {why}", request.image.display());
    let size = device.info().size / SECTOR * SECTOR;
    let marks = content::marks(&request.image).map_err(|error| in_image(&error))?;
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
fn check_blank(request: &MakeRequest, is_new: bool) -> Result<(), String> {
    if is_new || request.force { Ok(()) } else { must_be_blank(&request.image) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use twin_host::Counter;

    /// Reports each write.
    struct Watched(Mutex<Sender<()>>);

    impl Counter for Watched {
        fn add(&self, _: u64) {
            let _ = self.0.lock().unwrap().send(());
        }
        fn set_done(&self, _: u64) {}
        fn set(&self, _: u64, _: u64) {}
        fn finish(&self) {}
    }

    struct Watching(Sender<()>);

    impl Progress for Watching {
        fn begin(&self, _: &'static str, _: Count) -> Bar {
            Bar::new(Watched(Mutex::new(self.0.clone())))
        }
    }

    /// The file was cut while its groups were still being written, and the next write made it long again.
    #[test]
    fn an_empty_file_is_empty_after_an_interrupt_in_the_midst_of_the_writes() {
        let image = std::env::temp_dir().join(format!("twinfs-make-{}", std::process::id()));
        std::fs::write(&image, "").unwrap();
        let request = MakeRequest {
            image: image.clone(),
            compression: None,
            key: None,
            size: Some(1 << 40),
            force: false,
            config: twin_lab::layouts::layout("ffs").unwrap().config(),
        };
        let interrupts = Interrupts::default();
        let (sender, writes) = channel();
        let interrupting = interrupts.clone();
        let made = std::thread::scope(|scope| {
            scope.spawn(move || {
                writes.recv().unwrap();
                interrupting.interrupt();
            });
            make(&request, &interrupts, &Watching(sender), &|_| Ok(()))
        });
        let left = std::fs::metadata(&image).unwrap().len();
        std::fs::remove_file(&image).unwrap();
        assert!(matches!(made, Err(NotMade::Why(why)) if why.contains("interrupted")));
        assert_eq!(left, 0);
    }
}
