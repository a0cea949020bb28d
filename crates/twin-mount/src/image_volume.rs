//! The volume in an image as the beginning of a simulation.
//!
//! Contract: an image is read and never written; a simulation changes a copy in memory.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use twin_age::Layout;
use twin_ageing::map_of_platter;
use twin_disk::{Block, Buf};
use twin_fs::LayoutKind;
use twin_lab::{Config, Platter, Run};
use twin_settings::value::bytes_for_people;

/// The most bytes of an image that are read into memory.
const MOST_BYTES: u64 = 4 << 30;
/// What is read at a time.
const CHUNK: usize = 64 << 10;

/// A run of a configuration on the volume of an image, and the layout score of that volume.
///
/// # Errors
/// If the layout is another one, or the volume is damaged.
pub fn run_on_image(
    config: &Config,
    name: &str,
    kind: &'static dyn LayoutKind,
    platter: &Platter,
) -> Result<(Run, Option<f64>), String> {
    if config.layout.name() != kind.name() {
        return Err(format!(
            "{name} is {}, and this layout is {}",
            kind.noun(),
            config.layout.name()
        ));
    }
    let map = map_of_platter(kind, platter).map_err(|error| error.to_string())?;
    if let Some(problem) = map.problems.first() {
        return Err(format!("{name} is damaged: {problem}"));
    }
    let score = Layout::of(&map).score.value();
    let config = Config { size: Some(platter.size()), size_asked: true, ..config.clone() };
    Ok((Run { start: Some(platter.clone()), ..Run::of(config) }, score))
}

/// The content of an image or device; holes are zeros and take no memory.
///
/// # Errors
/// If it cannot be read, or is too large for memory.
pub fn platter_of(path: &Path) -> Result<Platter, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut file = File::open(path).map_err(text)?;
    // A device has no length of its own.
    let size = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(text)?;
    let metadata = file.metadata().map_err(text)?;
    let is_file = metadata.is_file();
    let stored = if is_file { metadata.blocks() * 512 } else { size };
    if stored.min(size) > MOST_BYTES {
        return Err(format!(
            "{} of it are in use on the host, and a simulation can begin on {} at most",
            bytes_for_people(stored),
            bytes_for_people(MOST_BYTES)
        ));
    }
    let mut platter = Platter::new(size);
    let mut at = 0;
    while at < size {
        match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => at = data,
            // Nothing but holes is left. A device may not tell of holes.
            Err(_) if is_file => break,
            Err(_) => {}
        }
        let end = match seek(&file, SeekFrom::Hole(at)) {
            Ok(hole) if hole > at => hole,
            _ => size,
        };
        while at < end {
            let mut bytes = Buf::zeroed(CHUNK.min((end - at) as usize));
            file.read_exact_at(&mut bytes, at).map_err(text)?;
            let len = bytes.len() as u64;
            if bytes.iter().any(|&byte| byte != 0) {
                platter.write(at, &[Block::Bytes(bytes.freeze())]);
            }
            at += len;
        }
    }
    Ok(platter)
}
