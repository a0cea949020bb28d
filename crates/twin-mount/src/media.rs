//! Volumes that are neither files nor block devices of this machine, by the scheme of their name: `s3://bucket/volume`.
//!
//! Contract: a program that knows a medium registers it before anything else happens; whatever takes an image then
//! takes such a name. A medium has room for logs alone, which never write into the middle of what they have filled.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use twin_bucket::{Counts, JournalStatus};
use twin_disk::BlockDevice;
use twin_fs::LayoutKind;
use twin_host::{FileDevice, Host, ImageOptions, create_image, is_remote};
use twin_lab::follow::Begun;
use twin_lab::layouts::LAYOUTS;
use twin_rt::{BoxFuture, Nanos, SECS};

/// How a volume on a medium is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// To be read alone, as it is now, beside whoever writes it.
    pub read_only: bool,
    /// Followed, with so long an interval between two looks; read-only too.
    pub follow: Option<Nanos>,
    /// Bytes of memory for pieces of what is read, unless there is a cache. Of a volume that is followed each new state reads
    /// again what the one before has read.
    pub memory: u64,
    /// Even if its writer did not close it and may live.
    pub take_over: bool,
    /// Where what is read is kept on this machine.
    pub cache: Option<LocalFile>,
    /// Where what is synced is kept on this machine until the medium has it.
    pub journal: Option<LocalFile>,
    /// The key, if the volume is encrypted.
    pub key: Option<KeyFrom>,
}

/// Where the key of an encrypted volume comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    /// A file has it.
    File(PathBuf),
    /// A command of the shell prints it.
    Command(String),
}

/// How what is kept on a medium is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Zstandard.
    Zstd,
    /// LZ4: faster, and less.
    Lz4,
}

impl Compression {
    /// All that there are, by name.
    pub const ALL: [(&str, Compression); 2] =
        [("zstd", Compression::Zstd), ("lz4", Compression::Lz4)];
}

/// What a new volume on a medium shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMedium {
    /// Bytes of its device.
    pub size: u64,
    /// How it is compressed, if it is.
    pub compression: Option<Compression>,
    /// With which key it is encrypted, if it is.
    pub key: Option<KeyFrom>,
}

/// A file or block device of this machine beside a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes, if it is a file that does not exist.
    pub size: u64,
}

impl LocalFile {
    /// Opens it, and makes it first if it does not exist.
    ///
    /// # Errors
    /// If it is in use, or the host refuses.
    pub fn open(&self, host: &Host) -> Result<Rc<dyn BlockDevice>, String> {
        if !self.path.exists() {
            create_image(&self.path, self.size).map_err(|error| error.to_string())?;
        }
        let device = FileDevice::open(host, &self.path, &ImageOptions::default());
        Ok(Rc::new(device.map_err(|error| error.to_string())?))
    }
}

/// An open volume on a medium, as a device.
pub struct Medium {
    /// The device.
    pub device: Rc<dyn BlockDevice>,
    /// What is to be done once the volume on it is closed.
    pub close: Close,
    /// What is known of its store.
    pub store: StoreFigures,
    /// If it is followed, by whom.
    pub follow: Option<Begun>,
}

/// What is known of a store at this moment.
pub type StoreFigures = Rc<dyn Fn() -> OfStore>;

/// What is known of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfStore {
    /// What it was asked since the volume was opened.
    pub asked: Counts,
    /// Bytes that are there, before compression.
    pub stored_bytes: u64,
    /// What waits in the journal on this machine, if there is one.
    pub journal: Option<JournalStatus>,
}

/// Ends the use of a medium.
pub type Close = Rc<dyn Fn() -> BoxFuture<'static, Result<(), String>>>;

/// Does `work`, which closes the volume of an image. On a medium the guard has no say in how long it takes: a request to a store is
/// repeated for five minutes without an answer, longer than a device may be silent, and then closing fails by itself.
pub(crate) async fn closing<T>(host: Host, image: &Path, work: impl Future<Output = T>) -> T {
    if is_remote(image).is_none() {
        return work.await;
    }
    let goes_on = Rc::new(());
    let (watched, rt) = (Rc::downgrade(&goes_on), host.rt().clone());
    host.rt().clone().spawn("closing", async move {
        while watched.strong_count() > 0 {
            host.closing_advances();
            rt.sleep(SECS).await;
        }
    });
    let done = work.await;
    drop(goes_on);
    done
}

/// Ends the use of a medium, if there is one, once the volume on it is closed.
///
/// # Errors
/// If the medium fails: what was written is there, but it stays in this process's name.
pub fn end(host: &Host, close: Option<Close>) -> Result<(), String> {
    match close {
        Some(close) => host.rt().block_on(close()).map_err(|error| error.to_string())?,
        None => Ok(()),
    }
}

/// A kind of medium.
pub trait Media: Sync {
    /// What its names begin with, before `://`.
    fn scheme(&self) -> &'static str;

    /// Makes room for a volume where there is none.
    ///
    /// # Errors
    /// If there is one, or the medium fails.
    fn make(&self, host: &Host, name: &str, new: NewMedium) -> Result<Medium, String>;

    /// Opens a volume.
    ///
    /// # Errors
    /// If there is none, it is in use, or the medium fails.
    fn open(&self, host: &Host, name: &str, how: How) -> Result<Medium, String>;
}

/// The media that this program knows.
static MEDIA: Mutex<Vec<&'static dyn Media>> = Mutex::new(Vec::new());

/// Makes a kind of medium known.
pub fn register(media: &'static dyn Media) {
    MEDIA.lock().unwrap_or_else(PoisonError::into_inner).push(media);
}

/// The medium that an image's name leads to, with the name as text; `None` if it is a path.
///
/// # Errors
/// If this program does not know it.
pub fn of(image: &Path) -> Result<Option<(&'static dyn Media, &str)>, String> {
    let Some(name) = is_remote(image) else { return Ok(None) };
    let scheme = name.split_once("://").map_or("", |(scheme, _)| scheme);
    let known = MEDIA.lock().unwrap_or_else(PoisonError::into_inner);
    let media = known.iter().find(|media| media.scheme() == scheme);
    match media {
        Some(&media) => Ok(Some((media, name))),
        None => Err(format!(
            "{name}: this program knows no {scheme}://. Volumes in buckets (s3://BUCKET/NAME) are opened by twinfs-bucket, \
             which `cargo xtask bucket` builds"
        )),
    }
}

/// The layout of every volume on a medium.
pub fn layout() -> &'static dyn LayoutKind {
    LAYOUTS.iter().copied().find(|kind| kind.is_log()).unwrap_or(LAYOUTS[0])
}

/// Refuses a path as a name of a medium, for commands that work on images of this machine alone.
///
/// # Errors
/// If it is one.
pub fn must_be_here(image: &Path, what: &str) -> Result<(), String> {
    match is_remote(image) {
        Some(name) => Err(format!("{name}: {what} is for images on this machine")),
        None => Ok(()),
    }
}
