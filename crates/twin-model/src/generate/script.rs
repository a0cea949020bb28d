//! A client's sequence of operations on one file: what a program does between open and close.

use std::collections::VecDeque;

use twin_fs::{Data, Ino, Op, Reply, Result};

/// A step on the script's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Open { write: bool },
    Write { off: u64, len: u64 },
    Read { off: u64, len: u32 },
    Fsync,
    Release,
    Forget,
}

/// The next operations of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// The file, once a reply has named it.
    ino: Option<Ino>,
    first: Option<Op>,
    steps: VecDeque<Step>,
}

impl Script {
    /// Finds or makes a file by the first operation, which gives an entry, then takes the steps.
    pub(super) fn begin(&mut self, first: Op, steps: impl IntoIterator<Item = Step>) {
        *self = Script { ino: None, first: Some(first), steps: steps.into_iter().collect() };
    }

    /// The next operation, or none at the end.
    pub(super) fn next(&mut self) -> Option<Op> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let ino = self.ino?;
        Some(match self.steps.pop_front()? {
            Step::Open { write } => Op::Open { ino, read: true, write, truncate: false },
            Step::Write { off, len } => Op::Write { ino, off, data: Data::Synthetic(len) },
            Step::Read { off, len } => Op::Read { ino, off, len },
            Step::Fsync => Op::Fsync { ino, data_only: false },
            Step::Release => Op::Release { ino },
            Step::Forget => Op::Forget { ino, count: 1 },
        })
    }

    /// Learns the file; after a failure leaves out all but letting go of it.
    pub(super) fn learn(&mut self, op: &Op, reply: &Result<Reply>) {
        let opened = match (op, reply) {
            (Op::Create { .. } | Op::Lookup { .. }, Ok(Reply::Entry(entry))) => {
                self.ino = Some(entry.attr.ino);
                return;
            }
            (Op::Create { .. } | Op::Lookup { .. }, Err(_)) => {
                return self.steps.clear();
            }
            (_, Ok(_)) => return,
            (op, Err(_)) => !matches!(op, Op::Open { .. }),
        };
        self.steps.retain(|step| *step == Step::Forget || (opened && *step == Step::Release));
    }
}

/// The writes of a file of `size` bytes from its beginning, of at most `chunk` bytes each.
pub(super) fn writes(size: u64, chunk: u64) -> impl Iterator<Item = Step> {
    let chunk = chunk.max(1);
    (0..size.div_ceil(chunk)).map(move |n| {
        let off = n * chunk;
        Step::Write { off, len: chunk.min(size - off) }
    })
}
