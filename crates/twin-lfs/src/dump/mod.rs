//! The dump of a log: [`twin_fs::dump`] with the log's own structures.
//!
//! Contract: that of [`twin_fs::dump`]. Summaries are read by their one parser. Names of parts, fields and
//! columns are those of `docs/ondisk-lfs.md`.
//!
//! ```
//! # use std::rc::Rc;
//! # use twin_disk::MemDisk;
//! # use twin_fs::dump;
//! # use twin_lfs::{Lfs, MkfsOptions};
//! # use twin_rt::{ClockOnly, Rt};
//! #[derive(Default)]
//! struct Names(Vec<String>);
//! impl dump::Sink for Names {
//!     fn fields(&mut self, name: &str, _about: &str, _fields: dump::Fields) {
//!         self.0.push(name.into());
//!     }
//!     fn begin(&mut self, name: &str, _about: &str, _columns: &[dump::Column]) {
//!         self.0.push(name.into());
//!     }
//!     fn row(&mut self, _row: Vec<dump::Value>) {}
//!     fn end(&mut self) {}
//!     fn problem(&mut self, problem: dump::Problem) {
//!         panic!("{problem}");
//!     }
//! }
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(32 << 20)));
//! rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let root = dump::Request::parse(twin_lfs::dump::STRUCTURES, "dir", Some("/"))?;
//! let mut names = Names::default();
//! rt.block_on(twin_lfs::dump::dump(&rt, disk, &root, &mut names)).unwrap()?;
//! assert_eq!(names.0, ["directory", "entries"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ifile;
mod log;
mod snapshots;
mod source;
mod volume;

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::dump::{
    DumpError, Problem, Request, Sink, Structure, StructureArgument, StructureSelector,
};
use twin_fs::{Features, FsError};
use twin_rt::{BoxFuture, Rt};

use crate::check::Report;
use crate::check::start;
use crate::volume_reader::{LogState, VolumeReader};
use source::Source;

/// The structures of a log, beside those of files.
pub const STRUCTURES: &[Structure] = &[
    Structure {
        name: "overview",
        about: "what the volume is and where it stands, in short",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "superblock",
        about: "every field of the superblock, and its copies",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "checkpoints",
        about: "every copy of both checkpoint slots",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "segments",
        about: "the segment usage table: how much of each segment is live",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "summaries",
        about: "the log: partial segments of all segments, or with a segment's number all blocks in it",
        takes: StructureArgument::Number("a segment"),
    },
    Structure {
        name: "ifile",
        about: "the ifile: its inode, and which of its blocks holds what",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "snapshots",
        about: "the snapshots and branches, and the name of the head",
        takes: StructureArgument::Nothing,
    },
];

/// Shows what is on the volume on a device.
///
/// # Errors
/// If there is no volume, or not the segment or file that is asked for. Damage goes to the sink.
pub fn dump<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    request: &'a Request,
    sink: &'a mut dyn Sink,
) -> BoxFuture<'a, Result<(), DumpError>> {
    Box::pin(show(rt, device, request, sink))
}

async fn show(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<(), DumpError> {
    let mut report = Report::default();
    let sb = start::superblocks(&*device, &mut report).await?;
    let checkpoint = start::checkpoints(&*device, &sb, &mut report).await;
    let mut log_state = match &checkpoint {
        Some(checkpoint) => LogState::of(checkpoint),
        None => LogState::unknown(&sb),
    };
    let crashed = checkpoint.as_ref().is_some_and(|checkpoint| !checkpoint.closed);
    let mut recovered = None;
    let tells_state = !matches!(request.structure, "superblock" | "checkpoints");
    if crashed && tells_state && !request.unrecovered {
        match LogState::rolled_forward(rt, &device).await {
            Ok((rolled, done)) => (log_state, recovered) = (rolled, Some(done)),
            Err(error) => {
                let what = "roll-forward fails; this is the state of the checkpoint";
                sink.problem(Problem::with(what, error));
            }
        }
    }
    for finding in report.findings {
        sink.problem(finding.into());
    }
    let view = VolumeReader::new(device, sb, log_state);
    if checkpoint.is_some()
        && tells_state
        && let Err(error) = view.load_forwards().await
    {
        sink.problem(Problem::with("the summaries of forwarded blocks", error));
    }
    let features = Features::of(&view.sb.geometry);
    let source = Source { view, checkpoint, features };
    if twin_fs::dump::files(&source, request, sink).await? {
        return Ok(());
    }
    let mut dumper = Dumper { source: &source, sink };
    match (request.structure, &request.which) {
        ("superblock", _) => dumper.superblock().await,
        ("checkpoints", _) => dumper.checkpoints().await,
        ("segments", _) => dumper.segments().await,
        ("summaries", StructureSelector::Number(segment)) => dumper.summaries(*segment).await?,
        ("summaries", _) => dumper.all_summaries().await,
        ("ifile", _) => dumper.ifile().await,
        ("snapshots", _) => dumper.snapshots().await,
        _ => dumper.overview(recovered).await,
    }
    Ok(())
}

struct Dumper<'a> {
    source: &'a Source,
    sink: &'a mut dyn Sink,
}

impl Dumper<'_> {
    fn problem(&mut self, what: &str, error: FsError) {
        self.sink.problem(Problem::with(what, error));
    }
}
