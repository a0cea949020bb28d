//! The settings of a journal before the disk, as `mount --journal-file` puts one there.

use twin_disk::journaled::LEAST_JOURNAL;
use twin_settings::{Choice, Key, SettingsError, Unit};
use twin_sim::model;

use super::{Config, Needs};

/// What there is without a journal.
const NONE: &str = "none";

/// The journal before a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JournalDisk {
    /// The device that it is on; `None` if there is no journal.
    pub disk: Option<Choice<model::Known>>,
    /// The bytes of that device.
    pub size: u64,
}

impl JournalDisk {
    /// No journal, and the size that it has unless one is given.
    pub(super) const NONE: JournalDisk = JournalDisk { disk: None, size: 64 << 20 };
}

/// The keys.
pub(super) const KEYS: &[(Needs, Key<Config>)] = &[
    (
        Needs::NoBucket,
        Key::own(
            "journal-disk",
            "a faster device on which everything is durable before the disk has it, by the name of its model",
            "name|none",
            |c, text| {
                c.journal.disk = match text {
                    NONE => None,
                    _ => Some(solid(text)?),
                };
                Ok(())
            },
            |c| c.journal.disk.map_or(NONE, |disk| disk.name).into(),
        ),
    ),
    (
        Needs::Journal,
        Key::new(
            "journal-size",
            "bytes of that device: what is written again within them reaches the disk once",
            Unit::bytes(LEAST_JOURNAL, 1 << 40),
            |c| (&mut c.journal.size).into(),
        ),
    ),
];

/// The model of a device for journals.
fn solid(text: &str) -> Result<Choice<model::Known>, SettingsError> {
    let choice = Choice::named(&model::REGISTRY, text)?;
    match choice.kind {
        model::Kind::Flat | model::Kind::Flash | model::Kind::Mechanical => Ok(choice),
        _ => Err(SettingsError::new(format!("journal-disk={text}: that is no disk for a journal"))),
    }
}
