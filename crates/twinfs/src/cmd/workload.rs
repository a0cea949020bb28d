//! The workload that a command line names, looked through before anything is done with it.
//!
//! Contract: a trace that is no trace, holds no operation or is damaged is refused here, with what it is and
//! how much of it is good. One that was cut off when it was recorded is used up to there, which is told once
//! and makes the command's exit status 1. Runs share what this reading keeps of a trace ([`twin_lab::Keeping`]).

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use twin_cli::{Failure, usage};
use twin_lab::{Opener, Workload, WorkloadError, plan};
use twin_mount::input::{Wanted, must_be, operations_of};
use twin_trace::{Place, Reading, Record, Source, TraceError, readers};

use super::reading;

/// The trace that comes with the program: see traces/README.md.
pub(super) const SHIPPED_TRACE: &[u8] = include_bytes!("../../../../traces/server.tw");

/// A workload, and whether its trace was cut off.
pub(super) struct Chosen {
    pub(super) workload: Workload,
    pub(super) is_cut: bool,
    /// Number of its operations.
    pub(super) operations: u64,
    /// What the reader of its trace left out and assumed, which has been told.
    pub(super) reading: Reading,
}

/// The workload of a trace, perhaps in a foreign format, or of a generator, or the one that comes with the
/// program.
///
/// # Errors
/// Says what the file is if it is no trace; how much is good if it is damaged; the nearest name if there is no
/// such generator or format.
pub(super) fn chosen(
    trace: Option<&Path>,
    format: Option<&str>,
    generator: Option<&str>,
    seed: u64,
) -> Result<Chosen, Failure> {
    let Some(path) = trace else {
        let workload = match generator {
            Some(text) => generated(text, seed)?,
            None => Workload::Trace(Arc::from(SHIPPED_TRACE)),
        };
        let Survey { operations, reading, kept, .. } = Survey::of(&workload).map_err(usage)?;
        let workload = kept.unwrap_or(workload);
        return Ok(Chosen { workload, is_cut: false, operations, reading });
    };
    let workload = of_file(path, format)?;
    let survey = Survey::of(&workload).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = path.display();
    let Survey { operations, cut, damage, reading, kept } = survey;
    reading::tell(&name, &reading);
    if let Some(error) = damage {
        return Err(format!("{name}: {error}{}", good_part(path, operations, &error)).into());
    }
    match (operations, &cut) {
        (0, Some(cut)) => {
            return Err(format!("{name}: {cut}. No operation is left to replay").into());
        }
        (0, None) => {
            let why = "this trace holds no operation: nothing was done while it was recorded, or \
                       nothing that it could hold";
            return Err(format!("{name}: {why}").into());
        }
        (_, Some(cut)) => {
            twin_host::note!(
                "twinfs: {name}: {cut}. The {operations} operations before that are used"
            );
        }
        (_, None) => {}
    }
    let workload = kept.unwrap_or(workload);
    Ok(Chosen { workload, is_cut: cut.is_some(), operations, reading })
}

/// The workload of a trace in the format that is named, or that its content shows.
///
/// # Errors
/// Says what the file is if it is no trace, and the nearest name if there is no such format.
pub(super) fn of_file(path: &Path, format: Option<&str>) -> Result<Workload, Failure> {
    let reader = match format {
        Some(name) => {
            let named = readers::REGISTRY.get(name).map_err(usage)?;
            must_be(path, Wanted::Foreign)?;
            Some(named.name)
        }
        None => operations_of(path)?,
    };
    if let (Some(name), None) = (reader, format) {
        twin_host::note!("twinfs: {} is read as {name}", path.display());
    }
    let in_file = |e| format!("{}: {e}", path.display());
    // A file is read again by each run; what can be read only once has to be kept.
    if std::fs::metadata(path).map_err(in_file)?.is_file() {
        File::open(path).map_err(in_file)?;
        let path = path.to_owned();
        let opener = Opener::new(move || Ok(Box::new(File::open(&path)?)));
        return Ok(Workload::Stored(reader, opener));
    }
    let bytes = std::fs::read(path).map_err(in_file)?;
    Ok(match reader {
        Some(name) => Workload::Foreign(name, Arc::from(bytes)),
        None => Workload::Trace(Arc::from(bytes)),
    })
}

/// The workload that a text names: a file that is there is a trace, unless it describes a workload.
///
/// # Errors
/// As [`of_file`].
pub(crate) fn named(text: &str, format: Option<&str>, seed: u64) -> Result<Workload, Failure> {
    match format.is_some() || (Path::new(text).is_file() && !text.ends_with(".toml")) {
        true => of_file(Path::new(text), format),
        false => generated(text, seed),
    }
}

/// The workload of a generator, or of a file that describes one.
pub(super) fn generated(text: &str, seed: u64) -> Result<Workload, Failure> {
    match text.ends_with(".toml") {
        true => by_hand(Path::new(text), seed),
        false => Ok(Workload::Generated(text.into(), seed)),
    }
}

/// The workload that a file describes.
fn by_hand(path: &Path, seed: u64) -> Result<Workload, Failure> {
    let text = twin_host::text_of_file(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let plan = plan(&name, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Workload::ByHand(Arc::new(plan), seed))
}

/// What of a damaged trace is good, and how to have it.
fn good_part(path: &Path, operations: u64, error: &TraceError) -> String {
    match error.place {
        Place::Byte { offset, frame: Some(_), .. } if operations > 0 => format!(
            ". The {operations} operations before that are good: `head -c {offset} {} > good.tw` \
             makes a trace of them",
            path.display()
        ),
        Place::Line(_) if operations > 0 => {
            format!(
                ". {operations} operations before that are good: `twinfs convert --partial {} -o \
                 good.tw` makes a trace of them",
                path.display()
            )
        }
        _ => String::new(),
    }
}

/// What is in a trace.
struct Survey {
    /// Number of operations that can be read, of whole frames only if there is damage.
    operations: u64,
    /// What is missing, if it was cut off.
    cut: Option<String>,
    damage: Option<TraceError>,
    reading: Reading,
    /// The same workload, with what runs share, if it is a trace.
    kept: Option<Workload>,
}

impl Survey {
    fn of(workload: &Workload) -> Result<Survey, WorkloadError> {
        let mut source = workload.start_keeping()?;
        let (mut operations, mut in_frame) = (0, 0);
        loop {
            match source.next_record() {
                Ok(Some(Record::Request { .. })) => {
                    operations += 1;
                    in_frame += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    // A frame in which a record is bad is not good at all.
                    if matches!(error.place, Place::Byte { record: Some(_), .. }) {
                        operations -= in_frame;
                    }
                    let (cut, damage, reading) = (None, Some(error), source.reading());
                    return Ok(Survey { operations, cut, damage, reading, kept: None });
                }
            }
        }
        let (cut, reading) = (twin_lab::cut(&source), source.reading());
        // What is drawn has other records with each seed.
        let kept = (!workload.is_drawn()).then(|| workload.clone().kept(source));
        Ok(Survey { operations, cut, damage: None, reading, kept })
    }
}
