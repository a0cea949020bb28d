//! 4.4BSD-Lite's `cluster_read` (vfs_cluster.c). The first block of a file is read alone. From the
//! second block on a window of following blocks is read together with it. The window starts at one
//! block and doubles each time that the reader has used it up, as far as the blocks are adjacent on
//! disk.

use super::{Nearby, ReadAdvice, ReadPolicy, ReadPolicyInput};

pub(super) struct Growing;

impl ReadPolicy for Growing {
    fn advise(&self, view: ReadPolicyInput, _: &dyn Nearby) -> ReadAdvice {
        // As in the original's `ISSEQREAD`, block 0 is never sequential.
        let sequential =
            view.lbn > 0 && view.last.is_some_and(|l| l == view.lbn || l + 1 == view.lbn);
        if !sequential {
            return ReadAdvice { now: 1, memory: 0, ..ReadAdvice::default() };
        }
        let again = view.last == Some(view.lbn);
        let window = match view.memory {
            window if again => window,
            0 => 1,
            // Like the original's `int` the window overflows to 0 in the end, and starts again.
            window => window.wrapping_mul(2),
        };
        if view.cached {
            let used_up = view.next_missing <= view.lbn + view.memory.max(1);
            return match used_up {
                true => ReadAdvice {
                    now: 1,
                    ahead_from: view.next_missing,
                    ahead: window + 1,
                    memory: window,
                },
                false => ReadAdvice { now: 1, memory: view.memory, ..ReadAdvice::default() },
            };
        }
        match view.run {
            // The next block is not adjacent on disk: read this block, and the next run ahead.
            1 => ReadAdvice { now: 1, ahead_from: view.lbn + 1, ahead: window, memory: window },
            run => {
                let grown = window.min(run - 1);
                ReadAdvice { now: grown + 1, memory: grown, ..ReadAdvice::default() }
            }
        }
    }
}
