//! What an image holds, for the commands that want a volume.

use std::path::Path;

use crate::cli::Layout;
use crate::content::{self, Content};

/// The layout of the volume in an image or device. What cannot be looked at is left to whoever
/// opens it, whose error says more.
///
/// # Errors
/// Says what is there if it is no volume of ours.
pub(super) fn layout_of(image: &Path) -> Result<Layout, String> {
    let name = image.display();
    if image.is_dir() {
        return Err(format!("{name} is a directory: name the image file or block device"));
    }
    match content::of(image) {
        None | Some(Content::Lfs) => Ok(Layout::Lfs),
        Some(Content::Ffs) => Ok(Layout::Ffs),
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
        Some(known) => Err(format!("{name}: this is {known}, not a twinfs volume")),
    }
}

/// That an image holds a log-structured volume, for a command that works on these alone.
///
/// # Errors
/// As [`layout_of`]; and `why` if it is the other layout.
pub(super) fn must_be_log(image: &Path, why: &str) -> Result<(), String> {
    match layout_of(image)? {
        Layout::Lfs => Ok(()),
        Layout::Ffs => Err(format!("{}: this is an FFS volume: {why}", image.display())),
    }
}
