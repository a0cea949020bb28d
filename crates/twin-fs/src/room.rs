//! How much may be accepted of writes whose data comes later.
//!
//! A client that collects writes (the kernel above a mount) accepts them on its own account, and
//! brings the data when it likes: too late to say that there is no room. What such a client can be
//! brought to do is to ask before each write, without saying how much it will be, and to bring all
//! that it has collected. [`Gate`] is the policy on top of these two: when writes have to be asked
//! for, and what the answer is.
//!
//! Contract: while there is plenty of room the gate stands open and costs nothing. It shuts while
//! there is still room for everything that the client may have collected, so nothing that was
//! accepted before is lost. Behind a shut gate every write is asked for. Most pass, on an estimate
//! of their size from the file's earlier ones; what has passed is called back before the sum of the
//! estimates could come near the end. Below the reserve, files that have been seen to take new
//! room are refused. Others pass one write at a time, out of the reserve: whether it overwrites,
//! which a full volume must allow, is known once its data has come.
//!
//! What this cannot bound is a single write that is larger than the reserve and unlike the file's
//! earlier ones.

use twin_rt::FixedMap;

use crate::Ino;

/// The gate was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// From now on every write is to be asked for.
    Shut,
    /// Writes need not be asked for any more.
    Opened,
}

/// The answer to a client that wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Pass,
    /// Call back everything that has been collected, then ask again.
    CallBack,
    /// There is no room.
    Refuse,
}

/// What one file has been seen to do.
#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    /// Writes that passed since everything was called back.
    passed: u64,
    /// Bytes that came since then.
    came: u64,
    /// Bytes of one write, estimated from what came.
    each: u64,
    /// The room that the file took when it was looked at last.
    takes: u64,
    /// It took more room since everything was called back.
    grew: bool,
    /// Its writes take new room. Not known before some have come.
    grows: Option<bool>,
}

/// How many writes of a file may pass before they are called back: bounds what a file can do that
/// suddenly writes more at a time.
const MOST_PASSES: u64 = 256;
/// The smallest and the first estimate of a write: a page, and what copying programs use at most.
const SMALL: u64 = 4 << 10;
const FIRST: u64 = 1 << 20;
/// Files to remember; more are forgotten when everything has been called back.
const MOST_FILES: usize = 4096;

/// Bytes that a client should collect at most, above a volume with so much room in all: little of
/// it, and no more than keeps a device busy.
pub fn collected_bytes(limit_bytes: u64) -> u64 {
    (limit_bytes / 8).clamp(4 << 20, 64 << 20)
}

/// Decides what may be written. See the module.
#[derive(Debug)]
pub struct Gate {
    /// It shuts below so much room.
    margin: u64,
    /// Room that is kept for writes of which it is not known whether they take any.
    reserve: u64,
    shut: bool,
    /// Everything has been called back since it shut: what the client holds is known.
    sure: bool,
    /// The estimates of all writes that passed since everything was called back.
    granted: u64,
    /// Bytes that came since then.
    came: u64,
    files: FixedMap<Ino, Writer>,
}

impl Gate {
    /// A gate above a volume with so much room in all, for a client that collects up to
    /// `collected_bytes`.
    pub fn new(limit_bytes: u64, collected_bytes: u64) -> Gate {
        let reserve = (limit_bytes / 64).clamp(1 << 20, 8 << 20).min(limit_bytes / 16);
        // Clients bound what they collect by slowing writers down, which takes a moment, and while
        // the gate shuts more comes: on mounts a quarter on top of the bound did not always do.
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

    /// True if every write has to be asked for.
    pub fn is_shut(&self) -> bool {
        self.shut
    }

    /// Room that only writes get that may turn out to take none.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve
    }

    /// Looks at the room that is left.
    pub fn look(&mut self, free: u64) -> Option<Turn> {
        if !self.shut && free < self.margin {
            self.shut = true;
            self.sure = false;
            return Some(Turn::Shut);
        }
        // Some more than at shutting, or it would swing.
        if self.shut && free >= self.margin.saturating_add(self.margin / 4) {
            self.shut = false;
            (self.granted, self.came) = (0, 0);
            self.files = FixedMap::default();
            return Some(Turn::Opened);
        }
        None
    }

    /// A client wants to write to a file that takes so much room now.
    pub fn ask(&mut self, ino: Ino, free: u64, takes: u64) -> Verdict {
        if !self.shut {
            return Verdict::Pass;
        }
        // Files that come to write more at a time than they did show in what comes.
        let more = self.came > 2 * self.granted + self.reserve / 2;
        if !self.sure || more {
            return Verdict::CallBack;
        }
        let file = self.files.entry(ino).or_default();
        if file.came == 0 {
            file.takes = takes;
        }
        if takes == 0 {
            // It has nothing to overwrite.
            file.grows = Some(true);
        }
        let each = if file.each == 0 { FIRST.min(self.reserve) } else { file.each.max(SMALL) };
        let short = free < self.reserve.max(each.min(self.margin));
        let verdict = if !short {
            let fits = self.granted + each <= (free - self.reserve) / 2;
            if self.granted == 0 || fits && file.passed < MOST_PASSES {
                Verdict::Pass
            } else {
                Verdict::CallBack
            }
        } else if file.passed > 0 {
            Verdict::CallBack
        } else if file.grows == Some(true) {
            // The next one may overwrite after all (who undoes what failed does), as long as
            // there is something to find that out with.
            if free >= self.reserve / 4 {
                file.grows = None;
            }
            Verdict::Refuse
        } else {
            Verdict::Pass
        };
        if verdict == Verdict::Pass {
            file.passed += 1;
            self.granted += each;
        }
        verdict
    }

    /// Data has come of a file that takes so much room now. False if nobody had asked for it, so
    /// that the client does not know that it should.
    pub fn came(&mut self, ino: Ino, bytes: u64, takes: u64) -> bool {
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

    /// Data has come of a file, and there was no room for it.
    pub fn failed(&mut self, ino: Ino, bytes: u64) {
        if self.shut {
            let file = self.files.entry(ino).or_default();
            file.came += bytes;
            self.came += bytes;
            (file.grew, file.grows) = (true, Some(true));
        }
    }

    /// Everything that had passed has come.
    pub fn called_back(&mut self) {
        let counted = std::mem::replace(&mut self.sure, true);
        (self.granted, self.came) = (0, 0);
        for file in self.files.values_mut() {
            if file.came > 0 {
                file.grows = Some(file.grew);
            }
            // The first time, also that came which nobody had counted.
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
