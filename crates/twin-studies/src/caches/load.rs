//! The accesses of a trace, with blocks renamed to numbers without gaps: the only place in a study where
//! an access needs a hash.

use std::collections::VecDeque;
use std::fmt;

use twin_rt::FixedMap;
use twin_trace::block::{BlockOp, BlockSource};
use twin_trace::{Outcome, Reading, Record, Source, TraceError, Transfer};

use super::packed::Packed;

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

impl Effect {
    /// The effect with this code.
    pub(super) fn of(code: u32) -> Effect {
        match code {
            0 => Effect::Read,
            1 => Effect::Write,
            _ => Effect::WritePart,
        }
    }
}

/// The reads and writes of a trace, in order.
pub struct Accesses {
    /// The block, or object, of each access.
    pub(super) numbers: Packed,
    /// What each does, by the code of an [`Effect`].
    pub(super) effects: Packed,
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
        self.len() == 0
    }

    /// True if they are to objects that do not all have one size: then no policy is known to be the best.
    pub fn sizes_differ(&self) -> bool {
        let differ = |sizes: &Vec<u32>| sizes.iter().any(|size| *size != sizes[0]);
        self.sizes.as_ref().is_some_and(differ)
    }

    /// The blocks, or objects, of the first accesses, at most this many.
    pub fn first(&self, most: usize) -> Vec<u32> {
        let (mut found, mut chunk) = (Vec::new(), Vec::new());
        for at in 0..self.numbers.chunks() {
            if found.len() >= most {
                break;
            }
            self.numbers.chunk(at, &mut chunk);
            found.extend(chunk.iter().take(most - found.len()));
        }
        found
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
    pub(crate) fn footprint_bytes(&self) -> u64 {
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
        self.accesses.effects.push(effect as u32);
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
                "it touches {count} blocks, which is no access to a cache: choose a larger --block-size"
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
        numbers: Packed::default(),
        effects: Packed::default(),
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
            let mut operations = Operations::new(as_objects);
            let damage = operations.all(&mut loader, &mut *source, progress).err();
            let cut = if damage.is_none() { twin_lab::cut(&*source) } else { None };
            let mut reading = source.reading();
            reading.assume_of(operations.idle, IDLE);
            (damage, cut, reading)
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

/// What is said of reads and writes that transferred nothing.
const IDLE: &str = "reads and writes, at the ends of files or without success, moved nothing and are no \
                    accesses";
/// The most operations that wait for their answers; more are never in flight.
const WAITING_MOST: usize = 1 << 16;

/// A read or write that may still be answered.
struct Waiting {
    id: u64,
    number: u64,
    piece: Piece,
    /// How many bytes were moved, once that is known.
    moved: Option<u64>,
}

/// The reads and writes of a workload, in the order of their requests, with as many bytes as they moved:
/// an answer may tell of fewer than were asked for. What is not answered moved what it asked for.
struct Operations {
    as_objects: bool,
    waiting: VecDeque<Waiting>,
    number: u64,
    /// Reads and writes that moved nothing.
    idle: u64,
}

impl Operations {
    fn new(as_objects: bool) -> Operations {
        Operations { as_objects, waiting: VecDeque::new(), number: 0, idle: 0 }
    }

    fn all(
        &mut self,
        loader: &mut Loader,
        source: &mut dyn Source,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), LoadError> {
        let ended = self.read(loader, source, progress);
        // Before damage everything is good.
        while let Some(waiting) = self.waiting.pop_front() {
            self.add(loader, waiting)?;
        }
        ended
    }

    fn read(
        &mut self,
        loader: &mut Loader,
        source: &mut dyn Source,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), LoadError> {
        while let Some(record) = source.next_record().map_err(LoadError::Trace)? {
            match record {
                Record::Request { request, .. } => {
                    let Some(transfer) = Transfer::of(&request.op) else { continue };
                    let Transfer { ino, off, bytes, is_write } = transfer;
                    let piece = Piece { file: ino, start: off, bytes, is_write };
                    self.number += 1;
                    if self.number.is_multiple_of(TOLD_EVERY) {
                        progress(loader.accesses.len());
                    }
                    let (id, number) = (request.id, self.number);
                    self.waiting.push_back(Waiting { id, number, piece, moved: None });
                }
                Record::Reply { id, outcome, .. } => {
                    let at = self.waiting.binary_search_by_key(&id, |waiting| waiting.id);
                    let Ok(at) = at else { continue };
                    let waiting = &mut self.waiting[at];
                    waiting.moved = Some(match outcome {
                        Outcome::Data(bytes) | Outcome::Written(bytes) => bytes,
                        Outcome::Failed(_) => 0,
                        _ => waiting.piece.bytes,
                    });
                }
                Record::Node(_) => continue,
            }
            let is_full = self.waiting.len() > WAITING_MOST;
            let is_known = |first: &Waiting| first.moved.is_some() || is_full;
            while let Some(first) = self.waiting.pop_front_if(|first| is_known(first)) {
                self.add(loader, first)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, loader: &mut Loader, waiting: Waiting) -> Result<(), LoadError> {
        let Waiting { number, mut piece, moved, .. } = waiting;
        piece.bytes = moved.unwrap_or(piece.bytes).min(piece.bytes);
        if piece.bytes == 0 {
            self.idle += 1;
            return Ok(());
        }
        let added = match self.as_objects {
            true => loader.object(piece.file, piece.start, piece.start, &piece),
            false => loader.blocks(&piece),
        };
        added.map_err(|why| LoadError::Request(number, why))
    }
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
        // Formats that count in blocks or objects do not say what is written.
        let is_write = match request.op {
            BlockOp::Read => false,
            BlockOp::Write => source.unit_bytes().is_none(),
            // A trim leaves nothing to be cached, and a flush transfers nothing.
            BlockOp::Trim | BlockOp::Sync { .. } => continue,
        };
        let (file, start) = (request.device, request.offset_bytes);
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
