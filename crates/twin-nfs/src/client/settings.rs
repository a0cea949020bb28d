//! The settings of a client.

use twin_rt::{MILLIS, Nanos, SECS};
use twin_settings::{Key, SettingsError, Unit};

use crate::record::TRANSFER_MAX;

/// How a client writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// NFS version 3: data is collected, written unstable, and committed when a file is closed or
    /// synced, or its data is old.
    Behind,
    /// Each write waits until the server has it on its disk, as version 2 demands.
    Sync,
    /// Data is collected and written unstable, and never committed; the server answers changes of
    /// names before they are on its disk. A failure of the server loses acknowledged work.
    Async,
}

impl Writes {
    /// All, with their names in settings.
    pub const ALL: [(&'static str, Writes); 3] =
        [("behind", Writes::Behind), ("nfs-sync", Writes::Sync), ("nfs-async", Writes::Async)];
}

/// When a client sees what others have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// When it opens a file that they have closed, as NFS does.
    CloseToOpen,
    /// At once: data is kept under leases, and need not be written when a file is closed.
    Lease,
}

impl Consistency {
    /// All, with their names in settings.
    pub const ALL: [(&'static str, Consistency); 2] =
        [("close-to-open", Consistency::CloseToOpen), ("lease", Consistency::Lease)];
}

/// The settings of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSettings {
    /// Daemons for asynchronous I/O: the reads ahead and writes that are under way at once, besides
    /// those of the processes themselves.
    pub biods: u64,
    /// Bytes of a READ.
    pub rsize: u64,
    /// Bytes of a WRITE.
    pub wsize: u64,
    /// Whether writes are stable, or collected and committed.
    pub writes: Writes,
    /// When it sees what others have written.
    pub consistency: Consistency,
    /// The share by which clocks of clients and server may run apart: a client takes its leases for so much
    /// shorter.
    pub drift: f64,
    /// How fast the client's clock runs, 1 if it is right; for experiments with wrong clocks.
    pub clock: f64,
    /// The age at which collected data is written.
    pub write_behind_ns: Nanos,
    /// Bytes of file data that the client caches.
    pub cache_bytes: u64,
    /// READs that are issued ahead of a sequential reader.
    pub read_ahead: u64,
    /// The least and the most time for which attributes are believed. Between the two it is a tenth
    /// of the time since the file was changed.
    pub attributes_ns: (Nanos, Nanos),
    /// Time without a reply after which a call is sent again. It doubles each time, up to a minute.
    pub timeout_ns: Nanos,
}

/// The longest time between two copies of a call.
pub(super) const TIMEOUT_MAX_NS: Nanos = 60 * SECS;

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            biods: 4,
            rsize: 32 << 10,
            wsize: 32 << 10,
            writes: Writes::Behind,
            consistency: Consistency::CloseToOpen,
            drift: 0.01,
            clock: 1.0,
            write_behind_ns: 30 * SECS,
            cache_bytes: 32 << 20,
            read_ahead: 4,
            attributes_ns: (3 * SECS, 60 * SECS),
            timeout_ns: 1100 * MILLIS,
        }
    }
}

/// Bytes of one call's data.
const TRANSFER: Unit = Unit::bytes(4096, TRANSFER_MAX as u64);

/// The keys of [`ClientSettings`].
pub const KEYS: &[Key<ClientSettings>] = &[
    Key::new(
        "biods",
        "daemons of a client that read ahead and write; 4 to 16 are usual: more keep a \
         slow network busy",
        Unit::number(1, 1024),
        |c| (&mut c.biods).into(),
    ),
    Key::new(
        "rsize",
        "bytes of a READ; 8K to 64K are usual: more need fewer calls, and a lost \
         datagram costs more",
        TRANSFER,
        |c| (&mut c.rsize).into(),
    ),
    Key::new(
        "wsize",
        "bytes of a WRITE; 8K to 64K are usual: more need fewer calls, and a lost \
         datagram costs more",
        TRANSFER,
        |c| (&mut c.wsize).into(),
    ),
    Key::own(
        "writes",
        "how a client writes: behind, with COMMIT (version 3); each write waits for the server's \
         disk; nothing waits for it",
        "behind|nfs-sync|nfs-async",
        |c, text| {
            let names = Writes::ALL.iter().map(|(name, _)| *name);
            let found = Writes::ALL.iter().find(|(name, _)| *name == text);
            c.writes =
                found.ok_or_else(|| SettingsError::unknown("way of writing", text, names))?.1;
            Ok(())
        },
        |c| Writes::ALL.iter().find(|(_, w)| *w == c.writes).map_or("", |(name, _)| name).into(),
    ),
    Key::own(
        "consistency",
        "when a client sees what others have written: at the next open (close-to-open), or at once, \
         with leases that the server grants (lease)",
        "close-to-open|lease",
        |c, text| {
            let names = Consistency::ALL.iter().map(|(name, _)| *name);
            let found = Consistency::ALL.iter().find(|(name, _)| *name == text);
            c.consistency =
                found.ok_or_else(|| SettingsError::unknown("consistency", text, names))?.1;
            Ok(())
        },
        |c| {
            let found = Consistency::ALL.iter().find(|(_, known)| *known == c.consistency);
            found.map_or("", |(name, _)| name).into()
        },
    ),
    Key::new(
        "lease-drift",
        "share by which the clocks of clients may be wrong; a client uses a lease for so much less",
        Unit::Decimal(0.0, 0.5),
        |c| (&mut c.drift).into(),
    ),
    Key::new(
        "client-clock",
        "how fast the clock of a client runs; 1 is right, below it the client takes its leases for longer",
        Unit::Decimal(0.1, 10.0),
        |c| (&mut c.clock).into(),
    ),
    Key::new(
        "write-behind",
        "age at which a client writes the data that it has collected",
        Unit::SECONDS,
        |c| (&mut c.write_behind_ns).into(),
    ),
    Key::new(
        "client-cache",
        "bytes of file data that a client caches",
        Unit::bytes(64 << 10, 1 << 44),
        |c| (&mut c.cache_bytes).into(),
    ),
    Key::new(
        "client-read-ahead",
        "number of READs ahead of a sequential reader; 2 to 16 are usual",
        Unit::number(0, 1024),
        |c| (&mut c.read_ahead).into(),
    ),
    Key::new(
        "attr-min",
        "shortest time for which a client trusts attributes; 0 asks at each use",
        Unit::SECONDS,
        |c| (&mut c.attributes_ns.0).into(),
    ),
    Key::new(
        "attr-max",
        "longest time for which a client trusts attributes; longer saves calls, and \
         changes of others show later",
        Unit::SECONDS,
        |c| (&mut c.attributes_ns.1).into(),
    ),
    Key::new(
        "timeout",
        "time after which a client repeats a call; below the server's time for a call \
         every call is sent twice",
        Unit::Time(MILLIS, 60 * SECS),
        |c| (&mut c.timeout_ns).into(),
    ),
];
