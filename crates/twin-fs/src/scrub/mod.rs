//! Scrubbing: everything that is in use is read from the device while the volume goes on working, and
//! compared with what was written.
//!
//! Contract: nothing is changed, and what is found stays an error for its readers. Blocks are read past the
//! cache. A block whose pointer has a checksum is compared with that; another one with memory, if it is
//! there and clean, and otherwise by its form alone. What moves, dies or is being written meanwhile is
//! looked at again, and left out if it does not come to rest: it has just been written. A scrub makes one
//! request at a time and keeps still after it while clients work (`pace`). It can be cancelled, and goes
//! on later with the inode at which it was. The walk is the same on a mount and in a simulation; what is
//! special to a layout is behind [`ScrubView`].
//!
//! Main type: [`Scrub`]. Start at [`Volume::scrub`](crate::Volume::scrub).

mod file;
mod names;
mod pace;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_rt::{Category, Time};

use crate::core::Core;
use crate::layout::Layout;
use crate::scrub_view::{Flaw, ScrubNotes, ScrubView};
use crate::{FsError, Ino, ROOT_INO, Result};
use pace::Pace;

/// The most flaws that are kept; the others are counted.
pub const FLAWS_MAX: usize = 10_000;

/// What stands for the path of a file of the layout itself.
const OWN_FILE: &str = "the tables of the volume";

/// How a scrub is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubHow {
    /// Goes on where the last scrub was cancelled, if one was.
    pub resume: bool,
    /// The most bytes that are read in a second; 0 for no limit.
    pub bytes_per_second: u64,
}

/// Whether a scrub runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubPhase {
    /// There was none since the volume was opened.
    #[default]
    Never,
    /// One runs.
    Running,
    /// The last one was cancelled.
    Cancelled,
    /// The last one has seen everything.
    Complete,
    /// The last one could not go on.
    Failed,
}

impl ScrubPhase {
    /// The phase in one word.
    pub fn name(self) -> &'static str {
        match self {
            ScrubPhase::Never => "never",
            ScrubPhase::Running => "running",
            ScrubPhase::Cancelled => "cancelled",
            ScrubPhase::Complete => "complete",
            ScrubPhase::Failed => "failed",
        }
    }
}

/// How far a scrub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFigures {
    /// Whether it runs.
    pub phase: ScrubPhase,
    /// Bytes that were read from the device.
    pub read_bytes: u64,
    /// Bytes in use on the volume, which is about what will be read.
    pub used_bytes: u64,
    /// Inodes whose records and blocks were looked at.
    pub inodes: u64,
    /// What was left out because it was on its way to the device.
    pub skipped: u64,
    /// Bytes of blocks that could be read, and for which the format has no checksum.
    pub uncompared_bytes: u64,
    /// The number of flaws.
    pub flaws: u64,
    /// When it began, and when it ended, in civil time.
    pub began: Option<Time>,
    /// See `began`.
    pub ended: Option<Time>,
}

/// A flaw, and the path of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFlaw {
    /// The flaw.
    pub flaw: Flaw,
    /// The path; `None` for structures, and for inodes that have no name or whose name cannot be read.
    pub path: Option<String>,
}

/// The scrubs of a volume: the one that runs, or the last one. It outlives them, so that one can go on
/// where another was cancelled.
#[derive(Default)]
pub struct Scrub {
    figures: Cell<ScrubFigures>,
    /// The inode with which a scrub that was cancelled goes on.
    next: Cell<Ino>,
    cancelled: Cell<bool>,
    flaws: RefCell<Vec<Flaw>>,
    paths: RefCell<BTreeMap<Ino, String>>,
    notes: RefCell<Rc<ScrubNotes>>,
}

impl Scrub {
    /// How far it is.
    pub fn figures(&self) -> ScrubFigures {
        let notes = self.notes.borrow();
        ScrubFigures {
            read_bytes: notes.read_bytes(),
            skipped: notes.skipped(),
            uncompared_bytes: notes.uncompared_bytes(),
            ..self.figures.get()
        }
    }

    /// What was found; paths are known when the scrub has ended.
    pub fn flaws(&self) -> Vec<NamedFlaw> {
        let paths = self.paths.borrow();
        let named = |flaw: &Flaw| NamedFlaw {
            path: flaw.ino.and_then(|ino| paths.get(&ino).cloned()),
            flaw: flaw.clone(),
        };
        self.flaws.borrow().iter().map(named).collect()
    }

    /// True while one runs.
    pub fn is_running(&self) -> bool {
        self.figures.get().phase == ScrubPhase::Running
    }

    /// True while one runs that was cancelled: it ends soon.
    pub fn is_ending(&self) -> bool {
        self.is_running() && self.cancelled.get()
    }

    /// Has the scrub that runs end soon.
    pub fn cancel(&self) {
        self.cancelled.set(true);
    }

    fn change(&self, f: impl FnOnce(&mut ScrubFigures)) {
        let mut figures = self.figures.get();
        f(&mut figures);
        self.figures.set(figures);
    }

    /// Begins a scrub of its own, or goes on with the one that was cancelled.
    fn begin(&self, core: &Core, how: ScrubHow, used_bytes: u64, mark: u64) -> Rc<ScrubNotes> {
        let goes_on = how.resume && self.figures.get().phase == ScrubPhase::Cancelled;
        if !goes_on {
            self.next.set(0);
            self.flaws.borrow_mut().clear();
            self.paths.borrow_mut().clear();
            *self.notes.borrow_mut() = Rc::new(ScrubNotes::begin(mark));
            self.figures.set(ScrubFigures { began: Some(core.rt.civil()), ..Default::default() });
        }
        self.change(|figures| {
            (figures.phase, figures.used_bytes, figures.ended) =
                (ScrubPhase::Running, used_bytes, None);
        });
        self.cancelled.set(false);
        Rc::clone(&self.notes.borrow())
    }

    fn end(&self, core: &Core, phase: ScrubPhase) {
        self.change(|figures| (figures.phase, figures.ended) = (phase, Some(core.rt.civil())));
        let whole = self.figures();
        core.rt.log(Category::Scrub, "ends", || {
            [("read_bytes", whole.read_bytes), ("inodes", whole.inodes), ("flaws", whole.flaws)]
        });
    }

    /// Keeps flaws and tells of them.
    fn keep(&self, core: &Core, found: Vec<Flaw>) {
        for flaw in found {
            core.rt.log(Category::Scrub, "flaw", || {
                [
                    ("ino", flaw.ino.unwrap_or(0)),
                    ("offset", flaw.offset.unwrap_or(0)),
                    ("at", flaw.at),
                    ("bytes", flaw.len),
                ]
            });
            self.change(|figures| figures.flaws += 1);
            let mut flaws = self.flaws.borrow_mut();
            if flaws.len() < FLAWS_MAX {
                flaws.push(flaw);
            }
        }
    }
}

/// One run over a volume.
struct Run<'a> {
    core: &'a Rc<Core>,
    layout: &'a dyn Layout,
    view: &'a dyn ScrubView,
    scrub: &'a Scrub,
    notes: Rc<ScrubNotes>,
    pace: Pace,
}

/// Scrubs a volume: see the module. Ends early, without an error, if it is cancelled.
///
/// # Errors
/// If the layout cannot be scrubbed, a scrub runs already, or the volume's own tables cannot be followed.
pub(crate) async fn run(
    core: &Rc<Core>,
    layout: &Rc<dyn Layout>,
    scrub: &Scrub,
    how: ScrubHow,
) -> Result<()> {
    let view = layout.views().scrub;
    let view = view.ok_or(FsError::NotSupported("this layout cannot be scrubbed"))?;
    if scrub.is_running() {
        return Err(FsError::Invalid("a scrub runs already"));
    }
    let stat = layout.figures(core).stat;
    let used = stat.blocks.saturating_sub(stat.free) * u64::from(stat.block_size);
    let notes = scrub.begin(core, how, used, view.mark());
    core.rt
        .log(Category::Scrub, "begins", || [("used_bytes", used), ("from_ino", scrub.next.get())]);
    let pace = Pace::new(core, how.bytes_per_second, notes.read_bytes());
    let run = Run { core, layout: &**layout, view, scrub, notes, pace };
    let done = run.all().await;
    run.take();
    run.name().await;
    let phase = match &done {
        Ok(true) => ScrubPhase::Complete,
        Ok(false) => ScrubPhase::Cancelled,
        Err(_) => ScrubPhase::Failed,
    };
    scrub.end(core, phase);
    done.map(drop)
}

impl Run<'_> {
    /// Looks at everything. False if it was cancelled.
    async fn all(&self) -> Result<bool> {
        for inode in self.view.own_files() {
            if !self.file(&inode).await {
                return Ok(false);
            }
        }
        while self.scrub.next.get() < self.view.numbers_end() {
            let first = self.scrub.next.get();
            let some = self.view.scrub_inodes(self.core, first, &self.notes).await?;
            if !self.step().await {
                return Ok(false);
            }
            for ino in some.in_use {
                if !self.inode(ino).await {
                    return Ok(false);
                }
            }
            self.scrub.next.set(some.next.max(first + 1));
        }
        for nth in 0..self.view.structures() {
            self.view.scrub_structure(self.core, nth, &self.notes).await?;
            if !self.step().await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Walks the blocks of an inode that is in use. False if the scrub was cancelled.
    async fn inode(&self, ino: Ino) -> bool {
        match self.layout.load_inode(self.core, ino).await {
            Ok(inode) => {
                self.scrub.change(|figures| figures.inodes += 1);
                self.file(&inode).await
            }
            // It was freed meanwhile, or its record is a flaw that was noted.
            Err(_) => true,
        }
    }

    /// Called after each request: keeps what was found, and keeps still if clients work. False if the scrub
    /// was cancelled.
    async fn step(&self) -> bool {
        self.take();
        self.pace.rest(self.core, self.notes.read_bytes(), &self.scrub.cancelled).await;
        !self.scrub.cancelled.get()
    }

    fn take(&self) {
        self.scrub.keep(self.core, self.notes.take_flaws());
    }

    /// Finds the paths of files with flaws.
    async fn name(&self) {
        for own in self.view.own_files() {
            self.scrub.paths.borrow_mut().insert(own.ino, OWN_FILE.into());
        }
        let known = self.scrub.paths.borrow().clone();
        let with_flaws: BTreeSet<Ino> =
            self.scrub.flaws.borrow().iter().filter_map(|flaw| flaw.ino).collect();
        let wanted = with_flaws.into_iter().filter(|ino| !known.contains_key(ino)).collect();
        let found = names::find(self.core, self.layout, ROOT_INO, wanted).await;
        self.scrub.paths.borrow_mut().extend(found);
    }
}
