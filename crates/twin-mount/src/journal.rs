//! A journal on a file or device of this machine before an image ([`twin_disk::journaled`]).

use std::path::Path;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_disk::journaled::{Journaled, Replayed, forget_journal};
use twin_host::{FileDevice, Host, ImageOptions, random_bytes};

use crate::media::{self, Close, How, LocalFile};

/// That an image can be opened with the journal that `how` names, if it names one.
///
/// # Errors
/// If it is to be read alone, or a flight is to be logged.
pub(crate) fn must_fit(
    image: &Path,
    how: &How,
    options: &ImageOptions,
    has_flight: bool,
) -> Result<(), String> {
    let name = image.display();
    match &how.journal {
        // Opening a journal brings what it has to the image, and then forgets it.
        Some(_) if options.read_only => {
            Err(format!("{name}: cannot be written, so its journal stays as it is"))
        }
        Some(_) if has_flight => {
            Err(format!("{name}: a flight log is for images without a journal"))
        }
        _ => Ok(()),
    }
}

/// A device, or one behind a journal.
pub(crate) struct Behind {
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) journal: Option<Journaled>,
    /// What the journal brought to the device, in words.
    pub(crate) replayed: Option<String>,
}

impl Behind {
    /// `device` behind the journal on a file, after what the file has was brought to the device.
    ///
    /// # Errors
    /// If the two do not belong together, or one cannot be used.
    pub(crate) fn of(
        host: &Host,
        device: Rc<dyn BlockDevice>,
        journal: Option<&LocalFile>,
    ) -> Result<Behind, String> {
        let Some(file) = journal else {
            return Ok(Behind { device, journal: None, replayed: None });
        };
        let local = file.open(host)?;
        let opening = Journaled::open(host.rt(), device, local, random_bytes()?);
        let opened = host.rt().block_on(opening).map_err(|error| error.to_string())?;
        let (journaled, replayed) = opened.map_err(|error| error.to_string())?;
        let Replayed { records, bytes } = replayed;
        let words = || format!("{records} writes ({bytes} bytes) came from the journal");
        Ok(Behind {
            device: Rc::new(journaled.clone()),
            journal: Some(journaled),
            replayed: (records > 0).then(words),
        })
    }
}

/// Lets an image be what it is without the journal with which it was mounted.
///
/// # Errors
/// If it was mounted without one, or cannot be written.
pub fn give_up_journal(host: &Host, image: &Path) -> Result<(), String> {
    let name = image.display();
    media::must_be_here(image, "--lost-journal")?;
    let device = FileDevice::open(host, image, &ImageOptions::default());
    let device = Rc::new(device.map_err(|error| error.to_string())?);
    match host.rt().block_on(forget_journal(device)).map_err(|error| error.to_string())? {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{name}: nothing of it is in a journal")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Brings what is in a journal to its image.
pub(crate) fn emptied(journal: Journaled, image: &Path) -> Close {
    let name = image.display().to_string();
    Rc::new(move || {
        let (journal, name) = (journal.clone(), name.clone());
        Box::pin(async move {
            journal.close().await.map_err(|error| {
                let bytes = journal.waiting().bytes;
                format!(
                    "{name}: {error}; the journal keeps {bytes} bytes that the image does not have: mount it again with the \
                     same journal"
                )
            })
        })
    })
}
