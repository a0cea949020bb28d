//! The accesses of a trace, with blocks renamed to numbers without gaps: the only place in a study where
//! an access needs a hash.

use std::fmt;

use twin_fs::Op;
use twin_rt::FixedMap;
use twin_trace::block::{BlockOp, BlockSource};
use twin_trace::{Reading, Record, Source, TraceError};

/// The most blocks that a request may touch.
const MOST_BLOCKS: u64 = 1 << 24;
/// The most accesses: their numbers have 32 bits.
const MOST_ACCESSES: usize = u32::MAX as usize - 1;

/// What an access does to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    /// All of the block is written.
    Write,
    /// A part of it is.
    WritePart,
}

/// The reads and writes of a trace, in order.
pub struct Accesses {
    /// The block, or object, of each access.
    pub(super) numbers: Vec<u32>,
    pub(super) effects: Vec<Effect>,
    /// The number of different blocks, or objects.
    pub(super) blocks: u32,
    /// The sizes of objects, at their first appearance.
    pub(super) sizes: Option<Vec<u32>>,
    /// Where each is: a file or device, and the first byte in it.
    pub(super) places: Vec<(u64, u64)>,
    /// Whether the places are those of a disk.
    pub(super) have_places: bool,
    /// The bytes of a block.
    pub(super) block_bytes: u64,
}

impl Accesses {
    /// The number of accesses.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The number of different blocks, or objects.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The bytes of all blocks, or objects.
    pub fn footprint_bytes(&self) -> u64 {
        match &self.sizes {
            Some(sizes) => sizes.iter().map(|size| u64::from(*size)).sum(),
            None => u64::from(self.blocks) * self.block_bytes,
        }
    }

    pub(super) fn bytes_of(&self, block: u32) -> u64 {
        self.sizes.as_ref().map_or(self.block_bytes, |sizes| sizes[block as usize].into())
    }

    /// The mean weight of what is in the cache: bytes of objects, or one block.
    pub(super) fn mean_weight(&self) -> u64 {
        match &self.sizes {
            Some(sizes) => (self.footprint_bytes() / sizes.len().max(1) as u64).max(1),
            None => 1,
        }
    }
}

/// A trace that was opened.
pub enum Input {
    /// Operations on files.
    Operations(Box<dyn Source>),
    /// Requests to devices, references, or accesses to objects.
    Requests(Box<dyn BlockSource>),
}

/// The accesses of a trace up to its end, or to where it is damaged.
pub struct Loaded {
    /// The accesses.
    pub accesses: Accesses,
    /// What is wrong after these, and where.
    pub damage: Option<LoadError>,
    /// What is missing, if the trace was cut off when it was recorded.
    pub cut: Option<String>,
    /// What its reader left out and assumed.
    pub reading: Reading,
}

/// Why a trace cannot be read on.
#[derive(Debug)]
pub enum LoadError {
    /// It is damaged.
    Trace(TraceError),
    /// A request that cannot be studied, by its number from 1 on.
    Request(u64, String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Trace(error) => write!(f, "{error}"),
            LoadError::Request(number, why) => write!(f, "request {number}: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// A piece of a file or device that is read or written.
struct Piece {
    file: u64,
    start: u64,
    bytes: u64,
    is_write: bool,
}

struct Loader {
    accesses: Accesses,
    numbers: FixedMap<(u64, u64), u32>,
    /// The bytes of a block in the trace's own places.
    unit: u64,
}

impl Loader {
    fn number(&mut self, file: u64, block: u64, place: u64, bytes: u64) -> Result<u32, String> {
        let next = self.accesses.blocks;
        let number = *self.numbers.entry((file, block)).or_insert(next);
        if number == next {
            self.accesses.blocks += 1;
            self.accesses.places.push((file, place));
            if let Some(sizes) = &mut self.accesses.sizes {
                let size = u32::try_from(bytes.max(1));
                sizes.push(size.map_err(|_| format!("the object has {bytes} bytes, over 4 GiB"))?);
            }
        }
        Ok(number)
    }

    fn add(&mut self, number: u32, effect: Effect) -> Result<(), String> {
        if self.accesses.numbers.len() >= MOST_ACCESSES {
            return Err("the trace has more than 4,294,967,294 accesses".into());
        }
        self.accesses.numbers.push(number);
        self.accesses.effects.push(effect);
        Ok(())
    }

    /// A whole object.
    fn object(&mut self, file: u64, id: u64, place: u64, piece: &Piece) -> Result<(), String> {
        let number = self.number(file, id, place, piece.bytes)?;
        self.add(number, if piece.is_write { Effect::Write } else { Effect::Read })
    }

    /// All blocks that a piece touches.
    fn blocks(&mut self, piece: &Piece) -> Result<(), String> {
        let Some(end) = piece.start.checked_add(piece.bytes) else {
            return Err("it ends beyond 2^64 bytes".into());
        };
        let (first, last) = (piece.start / self.unit, end.div_ceil(self.unit));
        if last - first > MOST_BLOCKS {
            let count = last - first;
            return Err(format!(
                "it touches {count} blocks, which is no access to a cache: choose a larger --block"
            ));
        }
        for block in first..last {
            let at = block * self.unit;
            let whole = piece.start <= at && at + self.unit <= end;
            let effect = match (piece.is_write, whole) {
                (false, _) => Effect::Read,
                (true, true) => Effect::Write,
                (true, false) => Effect::WritePart,
            };
            let number = self.number(piece.file, block, at, self.unit)?;
            self.add(number, effect)?;
        }
        Ok(())
    }
}

/// Reads a trace: as blocks of `block_bytes`, or as whole objects. An object is what the trace calls one,
/// or else what begins at a place of a file or device, with the size that it has first.
///
/// `progress` is told of the accesses so far now and then.
pub fn load(
    input: Input,
    block_bytes: u64,
    as_objects: bool,
    progress: &mut dyn FnMut(usize),
) -> Loaded {
    let unit = match &input {
        Input::Requests(source) => source.unit_bytes(),
        Input::Operations(_) => None,
    };
    let accesses = Accesses {
        numbers: Vec::new(),
        effects: Vec::new(),
        blocks: 0,
        sizes: as_objects.then(Vec::new),
        places: Vec::new(),
        have_places: matches!(input, Input::Requests(_)) && unit.is_none(),
        block_bytes,
    };
    let unit = unit.unwrap_or(block_bytes);
    let mut loader = Loader { accesses, numbers: FixedMap::default(), unit };
    let (damage, cut, reading) = match input {
        Input::Operations(mut source) => {
            let damage = operations(&mut loader, &mut *source, as_objects, progress).err();
            let cut = if damage.is_none() { crate::simulate::cut(&*source) } else { None };
            (damage, cut, source.reading())
        }
        Input::Requests(mut source) => {
            let damage = requests(&mut loader, &mut *source, as_objects, progress).err();
            (damage, None, source.reading())
        }
    };
    Loaded { accesses: loader.accesses, damage, cut, reading }
}

/// After so many requests progress is told.
const TOLD_EVERY: u64 = 1 << 16;

fn operations(
    loader: &mut Loader,
    source: &mut dyn Source,
    as_objects: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<(), LoadError> {
    let mut number = 0;
    while let Some(record) = source.next_record().map_err(LoadError::Trace)? {
        let Record::Request { request, .. } = record else { continue };
        let piece = match &request.op {
            Op::Read { ino, off, len } => {
                Piece { file: *ino, start: *off, bytes: u64::from(*len), is_write: false }
            }
            Op::Write { ino, off, data } => {
                Piece { file: *ino, start: *off, bytes: data.len(), is_write: true }
            }
            _ => continue,
        };
        number += 1;
        if number % TOLD_EVERY == 0 {
            progress(loader.accesses.len());
        }
        let added = match as_objects {
            true => loader.object(piece.file, piece.start, piece.start, &piece),
            false => loader.blocks(&piece),
        };
        added.map_err(|why| LoadError::Request(number, why))?;
    }
    Ok(())
}

fn requests(
    loader: &mut Loader,
    source: &mut dyn BlockSource,
    as_objects: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<(), LoadError> {
    let mut number = 0;
    while let Some(request) = source.next_request().map_err(LoadError::Trace)? {
        number += 1;
        if number % TOLD_EVERY == 0 {
            progress(loader.accesses.len());
        }
        // A trim leaves nothing to be cached.
        if request.op == BlockOp::Trim {
            continue;
        }
        // Formats that count in blocks or objects do not say what is written.
        let is_write = request.op == BlockOp::Write && source.unit_bytes().is_none();
        let (file, start) = (request.device.into(), request.offset_bytes);
        let mut piece = Piece { file, start, bytes: request.bytes, is_write };
        let added = match (as_objects, source.object()) {
            (true, Some(object)) => {
                piece.bytes = object.bytes;
                loader.object(file, object.number, object.number, &piece)
            }
            (true, None) => loader.object(file, start, start, &piece),
            (false, _) => loader.blocks(&piece),
        };
        added.map_err(|why| LoadError::Request(number, why))?;
    }
    Ok(())
}
