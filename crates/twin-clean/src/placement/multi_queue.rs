//! MQ, multi-queue: chunks of the space in queues by the logarithm of their number of writes.
//!
//! Yang, Pandurangan, Choi and Balakrishnan, "AutoStream: Automatic Stream Management for
//! Multi-streamed SSDs", SYSTOR 2017. Chunks are 256 blocks. A chunk is in queue ln(writes); a
//! chunk at the head of its queue that has not been written for the lifetime of the hottest chunk
//! (the time between that chunk's last two writes) falls by one queue. Only user writes are
//! classified; the last class is the cleaner's.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, Needs, Setting, UserWrite};

const CHUNK_BLOCKS: u32 = 256;
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Chunk {
    writes: u64,
    last_at: u64,
    expires_at: u64,
    queue: u8,
    /// The neighbours in its queue, which begins with the least recently written chunk.
    before: u32,
    after: u32,
}

pub(super) struct MultiQueue {
    chunks: Vec<Chunk>,
    /// Head and tail of each queue.
    queues: Vec<(u32, u32)>,
    writes: u64,
    hottest: u32,
    hottest_writes: u64,
    lifetime: u64,
    cleaner_class: u8,
}

impl MultiQueue {
    pub(super) fn new(setting: &Setting) -> MultiQueue {
        let classes = setting.open_segments.max(2);
        let (before, after, queue) = (NOBODY, NOBODY, 0);
        let none = Chunk { writes: 0, last_at: 0, expires_at: 0, queue, before, after };
        MultiQueue {
            chunks: vec![none; setting.blocks.div_ceil(CHUNK_BLOCKS) as usize],
            queues: vec![(NOBODY, NOBODY); usize::from(classes - 1)],
            writes: 0,
            hottest: NOBODY,
            hottest_writes: 0,
            lifetime: 0,
            cleaner_class: classes - 1,
        }
    }

    fn unlink(&mut self, number: u32) {
        let Chunk { queue, before, after, .. } = self.chunks[number as usize];
        let ends = &mut self.queues[usize::from(queue)];
        match before {
            NOBODY => ends.0 = after,
            _ => self.chunks[before as usize].after = after,
        }
        match after {
            NOBODY => ends.1 = before,
            _ => self.chunks[after as usize].before = before,
        }
    }

    fn push(&mut self, number: u32, queue: u8) {
        let ends = &mut self.queues[usize::from(queue)];
        let tail = ends.1;
        ends.1 = number;
        match tail {
            NOBODY => ends.0 = number,
            _ => self.chunks[tail as usize].after = number,
        }
        let chunk = &mut self.chunks[number as usize];
        (chunk.queue, chunk.before, chunk.after) = (queue, tail, NOBODY);
    }

    fn promote(&mut self, number: u32) {
        self.writes += 1;
        let chunk = &mut self.chunks[number as usize];
        let (was_queued, last_at) = (chunk.writes > 0, chunk.last_at);
        chunk.writes += 1;
        let writes = chunk.writes;
        if writes > self.hottest_writes {
            self.hottest = number;
            self.hottest_writes = writes;
            self.lifetime = self.writes - last_at;
        }
        chunk.last_at = self.writes;
        chunk.expires_at = self.writes + self.lifetime;
        let queue = ((writes as f64).ln() as usize).min(self.queues.len() - 1) as u8;
        if was_queued {
            self.unlink(number);
        }
        self.push(number, queue);
    }

    fn demote(&mut self) {
        for queue in 0..self.queues.len() as u8 {
            let (head, _) = self.queues[usize::from(queue)];
            if head == NOBODY || self.chunks[head as usize].expires_at >= self.writes {
                continue;
            }
            let chunk = &mut self.chunks[head as usize];
            chunk.expires_at = self.writes + self.lifetime;
            let next = chunk.after;
            if head == self.hottest && next != NOBODY {
                self.hottest = next;
                self.hottest_writes = self.chunks[next as usize].writes;
            }
            self.unlink(head);
            self.push(head, queue.saturating_sub(1));
        }
    }
}

impl Placement for MultiQueue {
    fn request(&mut self, first_block: u32, blocks: u32, _: &LogView<'_>) {
        let last = (first_block + blocks.max(1) - 1) / CHUNK_BLOCKS;
        for number in first_block / CHUNK_BLOCKS..=last {
            self.promote(number);
            self.demote();
        }
    }

    fn user_write(&mut self, write: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        self.chunks[(write.block / CHUNK_BLOCKS) as usize].queue
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        self.cleaner_class
    }

    fn needs(&self) -> Needs {
        Needs { requests: true, ..Needs::default() }
    }
}
