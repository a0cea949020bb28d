//! Runs of a bare volume from a description; a study consists of such runs.

use std::sync::Arc;

use super::trace::Trace;
use super::workload::Workload;
use super::{Totals, Volume, VolumeGeometry};
use crate::inputs::Needs;
use crate::{placement, victim};

/// The source of the writes of a run.
#[derive(Clone, Debug)]
pub enum Source {
    /// A generator, and the number of blocks that it writes.
    Generated(Workload, u64),
    /// A trace, written once.
    Trace(Arc<Trace>),
}

/// The description of one run.
#[derive(Clone, Debug)]
pub struct StudyRun {
    /// The sizes of the volume.
    pub geometry: VolumeGeometry,
    /// The source of its writes.
    pub source: Source,
    /// The placement policy that is studied.
    pub placement: &'static placement::PlacementEntry,
    /// The victim policy that is studied.
    pub victim: &'static victim::VictimEntry,
    /// The seed of the generator and of policies that draw.
    pub seed: u64,
}

/// Number of blocks between two reports of progress.
const CHUNK: usize = 1 << 14;

impl StudyRun {
    /// Number of blocks that users will write.
    pub fn writes(&self) -> u64 {
        match &self.source {
            Source::Generated(_, writes) => *writes,
            Source::Trace(trace) => trace.writes(),
        }
    }

    /// Runs it. Calls `progress` now and then with the number of blocks that users have written
    /// since the last call.
    pub fn run(&self, progress: &dyn Fn(u64)) -> Totals {
        let setting = self.geometry.setting(self.seed);
        let placement = self.placement.make(&setting);
        let victim = self.victim.make(&setting);
        let needs = placement.needs().and(victim.needs());
        let mut volume = Volume::new(&self.geometry, placement, victim);
        match &self.source {
            Source::Generated(workload, writes) => {
                self.generated(&mut volume, workload, *writes, needs, progress);
            }
            Source::Trace(trace) => replay(&mut volume, trace, needs, progress),
        }
        volume.totals()
    }

    fn generated(
        &self,
        volume: &mut Volume,
        workload: &Workload,
        writes: u64,
        needs: Needs,
        progress: &dyn Fn(u64),
    ) {
        let mut source = workload.start(self.geometry.blocks, self.seed);
        let mut future = needs.future.then(|| {
            let mut ahead = workload.start(self.geometry.blocks, self.seed);
            let all =
                std::iter::repeat_with(|| Event { block: ahead.next_block(), is_trim: false });
            let all: Vec<Event> = all.take(writes as usize).collect();
            lifetimes(&all, self.geometry.blocks).into_iter()
        });
        let mut chunk = vec![0; CHUNK];
        let mut left = writes;
        while left > 0 {
            let chunk = &mut chunk[..left.min(CHUNK as u64) as usize];
            source.fill(chunk);
            for &block in chunk.iter() {
                if needs.requests {
                    volume.request(block, 1);
                }
                let lifetime = future.as_mut().and_then(Iterator::next).unwrap_or(0);
                volume.write_known(block, lifetime);
            }
            left -= chunk.len() as u64;
            progress(chunk.len() as u64);
        }
    }
}

fn replay(volume: &mut Volume, trace: &Trace, needs: Needs, progress: &dyn Fn(u64)) {
    let mut future = needs.future.then(|| {
        let events = trace.requests().iter().flat_map(|request| {
            let blocks = request.first_block..request.first_block + request.blocks;
            blocks.map(|block| Event { block, is_trim: request.is_trim })
        });
        lifetimes(&events.collect::<Vec<_>>(), trace.blocks()).into_iter()
    });
    let mut since = 0;
    for request in trace.requests() {
        let blocks = request.first_block..request.first_block + request.blocks;
        if request.is_trim {
            blocks.for_each(|block| volume.trim(block));
            continue;
        }
        volume.request(request.first_block, request.blocks);
        for block in blocks {
            volume.write_known(block, future.as_mut().and_then(Iterator::next).unwrap_or(0));
        }
        since += u64::from(request.blocks);
        if since >= CHUNK as u64 {
            progress(std::mem::take(&mut since));
        }
    }
    progress(since);
}

#[derive(Clone, Copy)]
struct Event {
    block: u32,
    is_trim: bool,
}

/// For each write: the number of user writes until the block is overwritten or deleted.
fn lifetimes(events: &[Event], count: u32) -> Vec<u64> {
    const NEVER: u64 = u64::MAX / 2;
    let mut ends_at = vec![NEVER; count as usize];
    let mut now = events.iter().filter(|event| !event.is_trim).count() as u64;
    let mut found = vec![0; now as usize];
    for event in events.iter().rev() {
        let end = &mut ends_at[event.block as usize];
        if event.is_trim {
            *end = now;
        } else {
            now -= 1;
            found[now as usize] = end.saturating_sub(now);
            *end = now;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_ends_with_the_next_write_or_trim_of_the_block() {
        let write = |block| Event { block, is_trim: false };
        let trim = |block| Event { block, is_trim: true };
        let events = [write(0), write(1), write(0), trim(0), write(1), write(1)];
        let never = |from: u64| u64::MAX / 2 - from;
        assert_eq!(lifetimes(&events, 2), [2, 2, 1, 1, never(4)]);
    }
}
