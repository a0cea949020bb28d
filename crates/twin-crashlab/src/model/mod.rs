//! Models of persistence: what of a history a file system keeps at a power failure.
//!
//! Contract: a model cuts a history into [`Part`]s in the order of its events. A part survives whole or not at all,
//! except where it may be torn between sectors. It needs other, earlier parts: with one of them missing it is missing
//! too. From a sync on, the parts that it makes durable are there, with all that they need. Every set of parts that
//! keeps to this is a state which a power failure may leave. A model is one file and one line in [`MODELS`].

mod ext4;
mod journal;
mod posix;
mod strict;
mod xfs;

use twin_settings::SettingsError;

use crate::history::{Event, History, What};
use crate::tree::{BLOCK, Effect, Id};

/// The number of a part.
pub type PartId = u32;

/// What a part is, for words and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Bytes of a file.
    Data,
    /// The length of a file.
    Size,
    /// Names: a new file, a link, a removal, a rename.
    Name,
    /// Permissions, owners, attributes.
    Attr,
}

/// What survives whole or not at all.
#[derive(Clone, Debug)]
pub struct Part {
    /// The event that it belongs to.
    pub event: usize,
    /// What it is.
    pub sort: Sort,
    /// What it changes.
    pub effects: Vec<Effect>,
    /// The parts without which it cannot be there, all earlier.
    pub needs: Vec<PartId>,
    /// It may be there with some of its sectors only.
    pub tears: bool,
}

/// A model of persistence.
pub struct Model {
    /// The name for `--like`.
    pub name: &'static str,
    /// A line for the help.
    pub about: &'static str,
    /// Its parts are writes of the device, and its trees devices with a volume to be recovered.
    pub is_device: bool,
    cut: fn(&History, &mut Parts),
}

/// All models; the first is the default.
pub const MODELS: &[&Model] = &[&ext4::EXT4, &xfs::XFS, &posix::POSIX, &strict::STRICT];

/// The model with this name.
///
/// # Errors
/// If there is none; the message lists all.
pub fn model(name: &str) -> Result<&'static Model, SettingsError> {
    let found = MODELS.iter().find(|model| model.name == name);
    let names = MODELS.iter().map(|model| model.name);
    found.copied().ok_or_else(|| SettingsError::unknown("model", name, names))
}

/// The parts of a history under a model, as they are cut.
#[derive(Debug, Default)]
pub struct Parts {
    /// In the order of their events.
    pub parts: Vec<Part>,
    /// For each part, the first event after which it is certain.
    pub durable: Vec<Option<usize>>,
}

impl Parts {
    /// The parts of a history.
    pub fn of(history: &History, model: &Model) -> Parts {
        let mut parts = Parts::default();
        (model.cut)(history, &mut parts);
        parts
    }

    fn add(
        &mut self,
        event: usize,
        sort: Sort,
        effects: Vec<Effect>,
        needs: Vec<PartId>,
    ) -> PartId {
        self.parts.push(Part { event, sort, effects, needs, tears: false });
        self.durable.push(None);
        (self.parts.len() - 1) as PartId
    }

    /// Makes parts certain after the sync of this event, with all that they need.
    fn sync(&mut self, event: usize, parts: impl IntoIterator<Item = PartId>) {
        let mut open: Vec<PartId> = parts.into_iter().collect();
        while let Some(part) = open.pop() {
            let part = part as usize;
            if self.durable[part].is_none() {
                self.durable[part] = Some(event);
                open.extend(&self.parts[part].needs);
            }
        }
    }

    /// The number of events before the event that this part belongs to; for what a sync covers.
    fn event(&self, part: PartId) -> usize {
        self.parts[part as usize].event
    }
}

/// A write cut at the borders of blocks: the effects with the numbers of their blocks.
fn pieces(id: Id, event: &Event, extends: bool) -> Vec<(u64, Effect)> {
    let What::Write { off, bytes, .. } = &event.what else { return Vec::new() };
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < bytes.len() {
        let at = off + done as u64;
        let len = ((BLOCK - at % BLOCK) as usize).min(bytes.len() - done);
        let data = Effect::Data { id, off: at, bytes: bytes.clone(), part: (done, len), extends };
        pieces.push((at / BLOCK, data));
        done += len;
    }
    pieces
}
