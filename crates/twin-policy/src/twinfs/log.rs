//! What policies of cleaning see of a log.

use std::ffi::c_void;

/// The setting that a policy of cleaning is made for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Blocks of the volume; block numbers are below it.
    pub blocks: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// The share of garbage in the log at which cleaning begins.
    pub garbage_share: f64,
    /// The most open segments.
    pub open_segments: u32,
    /// The seed of policies that draw random numbers.
    pub seed: u64,
}

/// A segment. Moments are numbers of blocks that users had written by then.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segment {
    /// 0: free, 1: open, 2: sealed, 3: being cleaned.
    pub state: u32,
    /// The class of the blocks in it.
    pub class: u32,
    pub size_blocks: u32,
    pub written_blocks: u32,
    pub live_blocks: u32,
    pub opened_at: u64,
    pub sealed_at: u64,
    /// When its youngest block was written by a user.
    pub youngest_at: u64,
    /// How many segments had been opened before it.
    pub serial: u64,
    /// Sums over live blocks, if the policy [needs] them: user writes, moments of the last ones.
    pub heat_writes: u64,
    pub heat_last_at: u64,
    /// Sum over its blocks of the moment of the last update but one, if the policy needs it.
    pub penultimate_sum: f64,
}

impl Segment {
    pub fn is_sealed(&self) -> bool {
        self.state == 2
    }
    /// The share of its blocks that is live.
    pub fn utilization(&self) -> f64 {
        f64::from(self.live_blocks) / f64::from(self.written_blocks.max(1))
    }
}

/// What a policy needs beyond the ordinary inputs; a sum of these.
pub mod needs {
    pub const NOTHING: u32 = 0;
    /// `heat_writes` and `heat_last_at` of segments.
    pub const HEAT: u32 = 1;
    /// `penultimate_sum` of segments.
    pub const UPDATES: u32 = 2;
    /// Requests, announced before their blocks.
    pub const REQUESTS: u32 = 4;
}

/// The state of a log.
#[repr(C)]
pub struct Log {
    /// User writes so far.
    pub now: u64,
    /// Blocks that hold user data.
    pub live_blocks: u64,
    pub segment_blocks: u32,
    /// The number of segments; they are numbered from 0 on.
    pub segments: u32,
    /// The least share of garbage in a victim.
    pub least_garbage: f64,
    pub context: *const c_void,
    pub segment_at: unsafe extern "C" fn(*const c_void, u32, &mut Segment) -> bool,
    pub open_written_in: unsafe extern "C" fn(*const c_void, u32) -> u32,
}

impl Log {
    /// A segment; none beyond the last.
    pub fn segment(&self, number: u32) -> Option<Segment> {
        let mut segment = Segment::default();
        // SAFETY: twinfs answers for its own context as long as this value is lent.
        unsafe { (self.segment_at)(self.context, number, &mut segment) }.then_some(segment)
    }

    /// Blocks in the open segment of a class; 0 if it has none.
    pub fn open_written(&self, class: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (self.open_written_in)(self.context, class) }
    }

    /// The segments that may be cleaned: sealed ones with enough garbage.
    pub fn candidates(&self) -> impl Iterator<Item = (u32, Segment)> + '_ {
        (0..self.segments).filter_map(|n| Some((n, self.segment(n)?))).filter(|(_, segment)| {
            let garbage = segment.written_blocks.saturating_sub(segment.live_blocks);
            let least = self.least_garbage * f64::from(segment.written_blocks);
            segment.is_sealed() && garbage > 0 && f64::from(garbage) >= least
        })
    }
}
