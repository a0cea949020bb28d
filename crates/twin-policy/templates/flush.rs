//! A flush policy: files are written when they have been dirty for the flush age, the oldest at once when a quarter of
//! the cache is dirty.

mod twinfs;

use twinfs::flush::{Advice, Dirty, Flush, Grain, NEVER, State, Which};

crate::export!(flush, "NAME", "files of the flush age, the oldest from a quarter of the cache on", ByAge);

struct ByAge {
    age_ns: u64,
}

/// The oldest files with together at least this many dirty bytes.
fn oldest(dirty: &Dirty, bytes: u64) -> Which {
    let (mut files, mut sum) = (Vec::new(), 0);
    dirty.files(|file| {
        files.push(file.file);
        sum += file.bytes;
        sum < bytes
    });
    Which::Files(files)
}

impl Flush for ByAge {
    const AGE_NS: u64 = 10_000_000_000;
    const GRAIN: Grain = Grain::Files;

    fn new(age_ns: u64) -> Self {
        ByAge { age_ns }
    }

    fn advise(&mut self, now_ns: u64, state: &State, dirty: &Dirty) -> Advice {
        let start = self.start_bytes(state);
        if state.dirty_bytes > start {
            return Advice::Write(oldest(dirty, (state.dirty_bytes - start).max(state.unit_bytes)));
        }
        if state.oldest_ns == NEVER {
            return Advice::Wait;
        }
        let due_ns = state.oldest_ns.saturating_add(self.age_ns);
        match due_ns <= now_ns {
            true => Advice::Write(Which::UpTo(now_ns.saturating_sub(self.age_ns))),
            false => Advice::WaitUntil(due_ns),
        }
    }

    fn start_bytes(&self, state: &State) -> u64 {
        state.capacity_bytes / 4
    }

    fn make_room(&mut self, state: &State, dirty: &Dirty) -> Which {
        oldest(dirty, state.wanted_bytes.max(state.unit_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_a_quarter_of_the_cache() {
        let policy = ByAge::new(ByAge::AGE_NS);
        let state = State {
            dirty_bytes: 0,
            data_bytes: 0,
            frame_bytes: 4096,
            oldest_ns: NEVER,
            capacity_bytes: 1 << 20,
            unit_bytes: 4096,
            wanted_bytes: 0,
        };
        assert_eq!((policy.start_bytes(&state), policy.limit_bytes(&state)), (1 << 18, 1 << 19));
    }
}
