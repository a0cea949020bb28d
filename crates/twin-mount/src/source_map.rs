//! The map of whatever a command line names: an image, a snapshot, a directory.
//!
//! Contract: nothing of the source is written to. What it is, is decided by its content.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use twin_age::{VolumeMap, snapshot};
use twin_ageing::fork::Closed;
use twin_ageing::map_of;
use twin_host::extents::{self, Walked};
use twin_host::{Count, FileDevice, Host, HostOptions, ImageOptions, Interrupts, Progress};

use crate::client::{FrozenVolume, MountClient};
use crate::image::layout_of;
use crate::opening;

/// The most memory in which a mount keeps what is overwritten while its map is read.
const KEEP_BYTES: u64 = 256 << 20;

/// The map of a source; of a mount of ours, that of one instant. With the free space, as far as it is told.
///
/// # Errors
/// What is wrong with it, with its name.
pub fn map_of_source(
    path: &Path,
    interrupts: &Interrupts,
    progress: &dyn Progress,
) -> Result<VolumeMap, String> {
    map_with(path, true, interrupts, progress)
}

/// The same; of a directory on another file system the free space of its device is read only if `with_free`.
///
/// # Errors
/// As [`map_of_source`].
pub fn map_with(
    path: &Path,
    with_free: bool,
    interrupts: &Interrupts,
    progress: &dyn Progress,
) -> Result<VolumeMap, String> {
    let in_source = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    if path.is_dir() {
        if let Some(mount) = MountClient::at(path)? {
            let FrozenVolume { host, kind, device, .. } = mount.freeze(KEEP_BYTES)?;
            let _bar = progress.begin("reading metadata", Count::Time);
            let closed = Closed::of(host.rt(), kind, device);
            return closed.and_then(|closed| closed.map()).map_err(|error| in_source(&error));
        }
        let bar = progress.begin("files", Count::Steps(0));
        let keep_on = |files: u64| {
            bar.set_done(files);
            interrupts.check().is_ok()
        };
        let walked = extents::map(path, with_free, &keep_on);
        return walked.map(of_directory).map_err(|error| error.to_string());
    }
    if let Some(bytes) = snapshot_bytes(path)? {
        return snapshot::decode(&bytes).map_err(|error| in_source(&error));
    }
    let kind = layout_of(path)?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let options = ImageOptions { read_only: true, ..ImageOptions::default() };
    let (device, _) = opening::device(&host, path, kind, &options)?;
    let device: Rc<FileDevice> = Rc::new(device);
    let _bar = progress.begin("reading metadata", Count::Time);
    map_of(host.rt(), kind, device).map_err(|error| in_source(&error))
}

/// The bytes of a file, if it is a snapshot.
pub fn snapshot_bytes(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let in_file = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(in_file)?;
    if !file.metadata().map_err(in_file)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    (&mut file).take(snapshot::MAGIC.len() as u64).read_to_end(&mut bytes).map_err(in_file)?;
    if !snapshot::is_snapshot(&bytes) {
        return Ok(None);
    }
    file.read_to_end(&mut bytes).map_err(in_file)?;
    Ok(Some(bytes))
}

/// Gives `each` the snapshots in a directory, in the order of their names. Returns true if there are damaged
/// ones, which are told of and left out.
///
/// # Errors
/// If there is none, or the directory cannot be read.
pub fn each_snapshot(dir: &Path, mut each: impl FnMut(&str, VolumeMap)) -> Result<bool, String> {
    let in_dir = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(in_dir)? {
        paths.push(entry.map_err(in_dir)?.path());
    }
    paths.sort();
    let (mut any, mut bad) = (false, false);
    for path in paths.iter().filter(|path| path.is_file()) {
        let Some(bytes) = snapshot_bytes(path)? else { continue };
        match snapshot::decode(&bytes) {
            Ok(map) => {
                any = true;
                each(&path.file_name().unwrap_or_default().to_string_lossy(), map);
            }
            Err(error) => {
                bad = true;
                twin_host::note!("twinfs: {}: {error}; it is left out", path.display());
            }
        }
    }
    match any {
        true => Ok(bad),
        false => {
            let dir = dir.display();
            Err(format!("{dir}: there is no snapshot in it: `twinfs snapshot` makes one"))
        }
    }
}

/// A walk over a directory as a map.
fn of_directory(walked: Walked) -> VolumeMap {
    use twin_age::map::{FileKind, FileMap, NameOf, Run};
    let block = u64::from(walked.block_size).max(1);
    let of_file = |file: extents::WalkedFile| {
        let run = |extent: &extents::Extent| Run {
            lbn: (extent.offset / block) as i64,
            blocks: extent.bytes.div_ceil(block),
            at: extent.at,
            bytes: extent.bytes,
        };
        FileMap {
            ino: file.ino,
            kind: if file.is_dir { FileKind::Directory } else { FileKind::File },
            size: file.size,
            mtime_s: file.mtime_s,
            runs: file.extents.iter().filter(|extent| extent.bytes > 0).map(run).collect(),
        }
    };
    let name = |(dir, ino, name)| NameOf { dir, ino, name };
    VolumeMap {
        system: walked.system,
        block_size: walked.block_size,
        size: walked.size,
        taken_s: walked.now_s,
        region: if walked.areas.is_empty() { String::new() } else { "group".into() },
        areas: walked.areas,
        free: walked.free,
        files: walked.files.into_iter().map(of_file).collect(),
        names: walked.names.into_iter().map(name).collect(),
        problems: walked.problems,
    }
}
