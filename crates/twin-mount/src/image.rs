//! What an image holds, for the commands that want a volume.

use std::path::Path;

use twin_fs::LayoutKind;
use twin_lab::layouts::LAYOUTS;

use crate::content::{self, Content};
use crate::input::taken_by;
use crate::media;

/// The layout of the volume in an image or device. An image that cannot be read is left to the
/// code that opens it, whose error says more.
///
/// # Errors
/// Says what is there if it is no volume of ours.
pub fn layout_of(image: &Path) -> Result<&'static dyn LayoutKind, String> {
    if media::of(image)?.is_some() {
        return Ok(media::layout());
    }
    let name = image.display();
    if image.is_dir() {
        return Err(format!("{name} is a directory: name the image file or block device"));
    }
    match content::of(image) {
        None => Ok(LAYOUTS[0]),
        Some(Content::Volume(layout)) => Ok(layout),
        Some(Content::Journaled(..)) => Err(format!(
            "{name}: its newest content is in the journal with which it was mounted. `twinfs mount --journal-file JOURNAL \
             {name} DIR` brings it back, and unmounting then makes the image whole. Only if the journal is lost: `twinfs check --repair \
             --lost-journal {name}`"
        )),
        Some(Content::Empty) => Err(format!(
            "{name} is empty, it holds no volume: `twinfs mkfs --size 4G {name}` makes one"
        )),
        Some(Content::Blank) => {
            Err(format!("{name} is blank, it holds no volume: `twinfs mkfs {name}` makes one"))
        }
        Some(Content::Unknown(_)) => Err(format!(
            "{name}: this is no twinfs volume: there is neither a superblock at its start nor a \
             copy of one, and nothing else that twinfs knows"
        )),
        Some(known) => Err(match taken_by(image) {
            Some(command) => format!("{name}: this is {known}, not a twinfs volume. {command}"),
            None => format!("{name}: this is {known}, not a twinfs volume"),
        }),
    }
}

/// The same of an image that is mounted with a journal, in which its newest content may be.
///
/// # Errors
/// As [`layout_of`], and if this is no image.
pub fn layout_with_journal(image: &Path) -> Result<&'static dyn LayoutKind, String> {
    if media::of(image)?.is_none()
        && let Some(Content::Journaled(layout, _)) = content::of(image)
    {
        return Ok(layout);
    }
    layout_of(image)
}

/// That an image holds a log-structured volume, for a command that works on these alone.
///
/// # Errors
/// As [`layout_of`]; and `why` if it is the other layout.
pub fn must_be_log(image: &Path, why: &str) -> Result<&'static dyn LayoutKind, String> {
    let kind = layout_of(image)?;
    match kind.is_log() {
        true => Ok(kind),
        false => Err(format!("{}: this is {}: {why}", image.display(), kind.noun())),
    }
}
