//! The dump of an FFS volume: [`twin_fs::dump`] with its own structures.
//!
//! Contract: that of [`twin_fs::dump`]. The names of parts, fields and columns are those of
//! `docs/ondisk-ffs.md`. A volume that was not closed is shown with the contents of its journal.
//! Without a journal it is shown as it is, because only a repair can determine its repaired state.

mod groups;
mod journal;
mod source;
mod volume;

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::FsError;
use twin_fs::dump::{
    DumpError, Problem, Request, Sink, Structure, StructureArgument, StructureSelector,
};
use twin_rt::BoxFuture;

use crate::check::volume_image::VolumeImage;
use crate::format::{find_replica, read_state, read_superblock};
use crate::open::features;
use crate::replay::read_journal;
use crate::settings::PlantedFault;
use source::Source;

/// The structures of an FFS volume, beside those of files.
pub const STRUCTURES: &[Structure] = &[
    Structure {
        name: "overview",
        about: "what the volume is and where it stands, in short",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "superblock",
        about: "every field of the superblock, and its replicas",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "groups",
        about: "the cylinder groups: how full each is, or with a group's number all its maps",
        takes: StructureArgument::Number("a group"),
    },
    Structure {
        name: "journal",
        about: "both headers of the journal, and the records that count",
        takes: StructureArgument::Nothing,
    },
];

/// Shows what is on the volume on a device.
///
/// # Errors
/// If there is no volume, or not the group or file that is asked for. Damage goes to the sink.
pub fn dump<'a>(
    device: Rc<dyn BlockDevice>,
    request: &'a Request,
    sink: &'a mut dyn Sink,
) -> BoxFuture<'a, Result<(), DumpError>> {
    Box::pin(show(device, request, sink))
}

async fn show(
    device: Rc<dyn BlockDevice>,
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<(), DumpError> {
    let sb = match read_superblock(&*device).await {
        Ok(sb) => sb,
        Err(error) => {
            let Ok(sb) = find_replica(&*device).await else { return Err(error.into()) };
            sink.problem(Problem::with("the superblock (a replica is used)", error));
            sb
        }
    };
    let state = read_state(&*device, &sb).await?;
    let view = VolumeImage::new(Rc::clone(&device), sb);
    let mut records = 0;
    if !state.closed && view.sb.journal_bytes > 0 && !request.unrecovered {
        match read_journal(&*device, &view.sb, PlantedFault::None).await {
            Ok(replay) => {
                records = replay.records;
                for (addr, block) in replay.blocks {
                    view.put(addr, block.to_bytes().to_vec());
                }
            }
            Err(error) => sink.problem(Problem::with("the journal", error)),
        }
    }
    let features = features(&view.sb);
    let source = Source::new(view, features, state, records);
    if twin_fs::dump::files(&source, request, sink).await? {
        return Ok(());
    }
    let mut dumper = Dumper { source: &source, sink };
    match (request.structure, &request.which) {
        ("superblock", _) => dumper.superblock().await,
        ("groups", StructureSelector::Number(group)) => dumper.group(*group).await?,
        ("groups", _) => dumper.groups().await,
        ("journal", _) => dumper.journal().await,
        _ => dumper.overview().await,
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
