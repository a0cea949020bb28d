//! The volume in an image as the beginning of a simulation, and simulated volumes as new images.
//!
//! Contract: an image that is read is never written; a simulation changes a copy in memory.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use twin_age::Layout;
use twin_ageing::fork::Twin;
use twin_ageing::{IMAGE_SECTOR, map_of_platter};
use twin_disk::{Block, Buf};
use twin_fs::LayoutKind;
use twin_lab::{Config, Run, SimulateError};
use twin_settings::value::bytes_for_people;
use twin_sim::Platter;

/// The most bytes of an image that are read into memory.
const MOST_BYTES: u64 = 4 << 30;
/// What is read at a time.
const CHUNK: usize = 64 << 10;
/// Pieces of this many zero bytes become holes.
const HOLE: usize = 4096;
/// What is written at a time.
const WRITTEN: u64 = 1 << 20;

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

/// Writes a platter to a new image, what is not zero alone; the rest of the file is a hole.
///
/// # Errors
/// Those of the host.
pub fn write_platter(file: &File, platter: &Platter) -> std::io::Result<()> {
    file.set_len(platter.size())?;
    let page = IMAGE_SECTOR as usize;
    let mut at = 0;
    while at < platter.size() {
        let len = WRITTEN.min(platter.size() - at);
        let mut chunk = vec![0; len as usize];
        // The pages that have something, each once: neighbours are written together, and whole, since
        // the host would zero the rest of a page that is written in part.
        let mut used: Vec<Range<usize>> = Vec::new();
        let mut place = 0;
        for block in platter.read(at, len) {
            let behind = place + block.len();
            if !matches!(block, Block::Zero(_)) {
                block.copy_to(&mut chunk[place..behind]);
                let pages = place / page * page..behind.next_multiple_of(page).min(chunk.len());
                match used.last_mut().filter(|last| last.end >= pages.start) {
                    Some(last) => last.end = pages.end,
                    None => used.push(pages),
                }
            }
            place = behind;
        }
        for pages in used {
            file.write_all_at(&chunk[pages.clone()], at + pages.start as u64)?;
        }
        at += len;
    }
    file.sync_all()
}

/// Why the image could not be written, in words.
struct NotWritten(String);

impl From<SimulateError> for NotWritten {
    fn from(error: SimulateError) -> NotWritten {
        NotWritten(error.to_string())
    }
}

impl From<std::io::Error> for NotWritten {
    fn from(error: std::io::Error) -> NotWritten {
        NotWritten(error.to_string())
    }
}

/// Writes a fork to a new image, what is not zero alone; the rest of the file is a hole. Gives the bytes that were copied.
///
/// # Errors
/// If the fork cannot be read, or the file not written.
pub fn write_twin(file: &File, twin: &Twin) -> Result<u64, String> {
    written(file, twin).map_err(|why| why.0)
}

fn written(file: &File, twin: &Twin) -> Result<u64, NotWritten> {
    file.set_len(twin.size())?;
    let bytes = twin.copy::<NotWritten>(|at, block: &Block| {
        for (nth, piece) in block.to_bytes().chunks(HOLE).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                file.write_all_at(piece, at + (nth * HOLE) as u64)?;
            }
        }
        Ok(())
    })?;
    file.sync_all()?;
    Ok(bytes)
}
