//! Settings of this layout that may differ from mount to mount, and the faults that tests build in.

/// Settings of this layout that may change from mount to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FfsSettings {
    /// Where new directories go, by name.
    pub dir_placement: String,
    /// What is written as soon as it is there, by name.
    pub write_behind: String,
    /// Blocks of a file that is being written are moved together before they are written
    /// (4.4BSD's `doreallocblks`).
    pub reallocate: bool,
    /// fsync sends a file's data and waits for nothing: not durable. One reading of the table of A
    /// Comparison of Logging and Clustering (1994), in which fsync costs next to nothing.
    pub lazy_fsync: bool,
    /// A fault built in on purpose, to show that tests find it.
    pub sabotage: Sabotage,
}

/// Faults that can be built in on purpose: negative controls of the crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Nothing flushes the device.
    SkipFlush,
    /// Freed space is used again at once, whatever the ordering says.
    ReuseAtOnce,
    /// A record of the journal does not wait for the data of its files.
    DataLate,
    /// Replay believes records without looking at the checksums of their blocks.
    SkipChecksum,
    /// Replay puts blocks of the journal over space that was freed and used again.
    SkipRevoked,
    /// What is freed while the transaction that has it is on its way to the journal is not revoked.
    RevokeLate,
    /// A restart leaves the journal's header where it was before the replay.
    HeaderStays,
    /// A commit takes the last flush for that of data which was sent during it.
    FlushEarly,
}

impl Default for FfsSettings {
    fn default() -> Self {
        FfsSettings {
            dir_placement: crate::dir_placement::registry()[0].name.into(),
            write_behind: crate::write_behind::registry()[0].name.into(),
            reallocate: true,
            lazy_fsync: false,
            sabotage: Sabotage::None,
        }
    }
}
