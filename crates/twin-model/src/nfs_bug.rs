//! The bugs that are planted in the NFS server and in the volumes behind it, for all that explores its contract.

/// Deliberate faults, each of which both explorations of the contract must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsBug {
    /// The verifier is the same after a restart.
    VerifierStays,
    /// The verifier is the same after a failed write-back (once a bug of the Linux server).
    LossNotReported,
    /// Fsync returns at once and does nothing.
    FsyncLies,
    /// Fsync does nothing, one time in ten.
    FsyncSometimesLies,
    /// Fsync of directories and empty files does nothing.
    NamesNotDurable,
    /// Fsync of files does nothing.
    FilesNotDurable,
    /// A stable write is not made durable.
    StableWriteIsNot,
    /// COMMIT answers without making anything durable.
    CommitDoesNothing,
    /// The device's flushes do not do what they say: nothing, or too late.
    FlushLies,
    /// Replies come before changes are durable.
    EarlyReplies,
    /// Repeated calls are executed again.
    NoReplyCache,
    /// Repeated writes are executed again.
    WritesNotCached,
    /// A call that is repeated while it is executed is executed again.
    RunningNotCached,
    /// Calls are recognized by their number alone.
    CallsByNumber,
    /// Generations are not compared.
    GenerationIgnored,
    /// Handles are signed with a key that a restart forgets.
    KeyChanges,
    /// The verifier of an exclusive create is not kept.
    ExclusiveForgets,
    /// Handles of removed files go on.
    RemovedStays,
    /// Some writes are acknowledged and dropped.
    WriteDropped,
}

impl NfsBug {
    /// All faults that can be planted.
    pub const ALL: [NfsBug; 19] = [
        NfsBug::VerifierStays,
        NfsBug::LossNotReported,
        NfsBug::FsyncLies,
        NfsBug::FsyncSometimesLies,
        NfsBug::NamesNotDurable,
        NfsBug::FilesNotDurable,
        NfsBug::StableWriteIsNot,
        NfsBug::CommitDoesNothing,
        NfsBug::FlushLies,
        NfsBug::EarlyReplies,
        NfsBug::NoReplyCache,
        NfsBug::WritesNotCached,
        NfsBug::RunningNotCached,
        NfsBug::CallsByNumber,
        NfsBug::GenerationIgnored,
        NfsBug::KeyChanges,
        NfsBug::ExclusiveForgets,
        NfsBug::RemovedStays,
        NfsBug::WriteDropped,
    ];
}
