//! The gate: how many writes may be accepted whose data arrives later.
//!
//! A client that collects writes (the kernel above a mount) accepts them itself and delivers the
//! data later, when it is too late to answer that there is no room. Such a client offers two means
//! of control. It can be made to ask before each write, though without telling the size, and it can
//! be made to deliver everything that it has collected (its writes are *called back*). [`Gate`] is
//! the policy that uses them: it decides when the client must ask, and what the answer is.
//!
//! Contract: while there is plenty of room the gate is open and costs nothing. It shuts while
//! there is still room for everything that the client may have collected, so no write that was
//! accepted earlier is lost. While the gate is shut the client asks before every write. Most writes
//! pass; the gate estimates their size from earlier writes to the file, and calls them back before
//! the sum of the estimates comes near the room that is left. Below the reserve, files are refused
//! that are known to take new room. Other files pass one write at a time, at the expense of the
//! reserve, because only the data of a write shows whether it overwrites, which a full volume must
//! allow.
//!
//! The gate cannot bound a single write that is larger than the reserve and unlike the earlier
//! writes to the file.

use twin_rt::FixedMap;

use crate::Ino;

/// A change of the gate that the client must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateChange {
    /// From now on the client must ask before every write.
    Shut,
    /// The client need not ask any more.
    Opened,
}

/// The answer to a client that wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVerdict {
    /// The client may write.
    Pass,
    /// The front end must call back everything that the client has collected, then ask again.
    CallBack,
    /// There is no room; the write fails.
    Refuse,
}

/// What the gate knows of the writes to one file.
#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    /// The number of writes that passed since everything was called back.
    passed: u64,
    /// The bytes that arrived since then.
    came: u64,
    /// The estimated size of one write, from the bytes that arrived.
    each: u64,
    /// The room that the file took when it was last looked at.
    takes: u64,
    /// True if the file has taken more room since everything was called back.
    grew: bool,
    /// Whether writes to the file take new room; `None` until some have arrived.
    grows: Option<bool>,
}

/// The most writes to a file that may pass before they are called back. It bounds the error when
/// the writes to a file suddenly become larger.
const MOST_PASSES: u64 = 256;
/// The smallest estimate of a write (a page) and the first one (the largest write of programs that
/// copy files).
const SMALL: u64 = 4 << 10;
const FIRST: u64 = 1 << 20;
/// The most files to remember. If there are more, all are forgotten after everything was called
/// back.
const MOST_FILES: usize = 4096;

/// The most bytes that a client should collect above a volume of `limit_bytes`: a small part of the
/// volume, and no more than is needed to keep a device busy.
pub fn collected_bytes(limit_bytes: u64) -> u64 {
    (limit_bytes / 8).clamp(4 << 20, 64 << 20)
}

/// Decides which writes a client may accept. See the module.
#[derive(Debug)]
pub struct Gate {
    /// The gate shuts when less room than this is left.
    margin: u64,
    /// Room that is kept for writes that may turn out to take none.
    reserve: u64,
    shut: bool,
    /// Everything has been called back since the gate shut, so the gate has counted all that the
    /// client may hold.
    sure: bool,
    /// The sum of the estimates of all writes that passed since everything was called back.
    granted: u64,
    /// The bytes that arrived since then.
    came: u64,
    files: FixedMap<Ino, Writer>,
}

impl Gate {
    /// A gate above a volume of `limit_bytes`, for a client that collects up to `collected_bytes`.
    pub fn new(limit_bytes: u64, collected_bytes: u64) -> Gate {
        let reserve = (limit_bytes / 64).clamp(1 << 20, 8 << 20).min(limit_bytes / 16);
        // A client keeps to its bound by slowing writers down, which takes effect late, and more
        // writes arrive while the gate shuts: on mounts a quarter above the bound was not always
        // enough.
        let margin = collected_bytes.saturating_mul(2).saturating_add(reserve);
        Gate {
            margin: margin.min(limit_bytes / 2),
            reserve,
            shut: false,
            sure: false,
            granted: 0,
            came: 0,
            files: FixedMap::default(),
        }
    }

    /// True if the client must ask before every write.
    pub fn is_shut(&self) -> bool {
        self.shut
    }

    /// The room in bytes that is kept for writes that may turn out to take none.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve
    }

    /// Opens or shuts the gate for `free` bytes of room, and returns the change if there is one.
    pub fn update(&mut self, free: u64) -> Option<GateChange> {
        if !self.shut && free < self.margin {
            self.shut = true;
            self.sure = false;
            return Some(GateChange::Shut);
        }
        // The gate opens at more room than it shuts at; otherwise it would swing.
        if self.shut && free >= self.margin.saturating_add(self.margin / 4) {
            self.shut = false;
            (self.granted, self.came) = (0, 0);
            self.files = FixedMap::default();
            return Some(GateChange::Opened);
        }
        None
    }

    /// Decides on a write to a file: `free` is the room of the volume and `takes` the room that the
    /// file takes now, in bytes.
    pub fn check_write(&mut self, ino: Ino, free: u64, takes: u64) -> WriteVerdict {
        if !self.shut {
            return WriteVerdict::Pass;
        }
        // Far more has arrived than was estimated: writes have become larger, so the estimates
        // cannot be trusted until everything is called back.
        let more = self.came > 2 * self.granted + self.reserve / 2;
        if !self.sure || more {
            return WriteVerdict::CallBack;
        }
        let file = self.files.entry(ino).or_default();
        if file.came == 0 {
            file.takes = takes;
        }
        if takes == 0 {
            // An empty file has nothing to overwrite.
            file.grows = Some(true);
        }
        let each = if file.each == 0 { FIRST.min(self.reserve) } else { file.each.max(SMALL) };
        let short = free < self.reserve.max(each.min(self.margin));
        let verdict = if !short {
            let fits = self.granted + each <= (free - self.reserve) / 2;
            if self.granted == 0 || fits && file.passed < MOST_PASSES {
                WriteVerdict::Pass
            } else {
                WriteVerdict::CallBack
            }
        } else if file.passed > 0 {
            WriteVerdict::CallBack
        } else if file.grows == Some(true) {
            // The next write may overwrite after all, as when a program undoes what failed. It may
            // pass as long as some of the reserve is left to find that out.
            if free >= self.reserve / 4 {
                file.grows = None;
            }
            WriteVerdict::Refuse
        } else {
            WriteVerdict::Pass
        };
        if verdict == WriteVerdict::Pass {
            file.passed += 1;
            self.granted += each;
        }
        verdict
    }

    /// Notes that data of a file arrived; `takes` is the room in bytes that the file takes now.
    /// Returns false if the client had not asked for the write, which shows that it does not know
    /// that the gate is shut.
    pub fn data_arrived(&mut self, ino: Ino, bytes: u64, takes: u64) -> bool {
        if !self.shut {
            return true;
        }
        let file = self.files.entry(ino).or_insert(Writer { takes, ..Writer::default() });
        file.came += bytes;
        self.came += bytes;
        file.grew |= takes > file.takes;
        file.takes = takes;
        file.passed > 0 || !self.sure
    }

    /// Notes that data of a file arrived and there was no room for it.
    pub fn failed(&mut self, ino: Ino, bytes: u64) {
        if self.shut {
            let file = self.files.entry(ino).or_default();
            file.came += bytes;
            self.came += bytes;
            (file.grew, file.grows) = (true, Some(true));
        }
    }

    /// Notes that everything was called back: the data of all writes that passed has arrived.
    pub fn called_back(&mut self) {
        let counted = std::mem::replace(&mut self.sure, true);
        (self.granted, self.came) = (0, 0);
        for file in self.files.values_mut() {
            if file.came > 0 {
                file.grows = Some(file.grew);
            }
            // The first call back after shutting also brings writes that the gate has not counted,
            // so it gives no estimate.
            if counted && file.passed > 0 && file.came > 0 {
                let each = file.came.div_ceil(file.passed);
                file.each = if each > file.each { each } else { (file.each + each) / 2 };
            }
            (file.passed, file.came, file.grew) = (0, 0, false);
        }
        if self.files.len() > MOST_FILES {
            self.files = FixedMap::default();
        }
    }
}
