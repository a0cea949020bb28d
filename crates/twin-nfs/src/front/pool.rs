//! The memory of calls and replies.
//!
//! Contract: all connections together use at most `total` bytes. Each connection owns a share, which
//! it can always use; the rest of the total is common. A part of the share is set aside for bytes that
//! come unasked ([`Memory::raw`]), because a connection that has taken all of its share for calls and
//! replies is read too. What calls and replies take goes to the other part of the share first, and only
//! the bytes beyond it count as common. So the sum is bounded by the shares of all connections and the
//! common limit, and one client cannot take the last bytes of another.
//!
//! The caller asks [`Pool::fits`] before calls and replies of a connection grow, and reports each change
//! of its bytes by [`Pool::change`]. A change that was not asked for, or not reported, breaks the bound for
//! all.

/// The bytes that a connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Bytes that came and have not been looked at: no more than are set aside for them.
    pub(super) raw: usize,
    /// Calls and replies, for which room was asked.
    pub(super) granted: usize,
}

/// The memory that calls and replies of all connections share; the module explains its bound.
#[derive(Debug)]
pub(super) struct Pool {
    /// The part of a share that is for calls and replies.
    share: usize,
    /// The most that is held beyond the shares.
    limit: usize,
    /// Memory in use beyond the shares of connections.
    common: usize,
    held: usize,
}

impl Pool {
    /// A pool of `total` bytes for `connections` connections, each of which owns `share` bytes, of which `raw`
    /// are set aside for bytes that come unasked.
    pub(super) fn new(total: usize, (share, raw): (usize, usize), connections: usize) -> Pool {
        let limit = total.saturating_sub(share.saturating_mul(connections));
        Pool { share: share.saturating_sub(raw), limit, common: 0, held: 0 }
    }

    /// Number of bytes that are in use.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The part of what calls and replies of a connection take that is beyond its share.
    pub(super) fn beyond(&self, granted: usize) -> usize {
        granted.saturating_sub(self.share)
    }

    /// True if a connection whose calls and replies take `granted` bytes may take `more` for them. With `own` it must stay within its
    /// share, because others wait for common memory.
    pub(super) fn fits(&self, granted: usize, more: usize, own: bool) -> bool {
        let after = self.beyond(granted.saturating_add(more));
        let grows = after - self.beyond(granted);
        grows == 0 || !own && grows <= self.limit.saturating_sub(self.common)
    }

    /// A connection uses `to` bytes now instead of `from`. True if common memory became free, so that
    /// the next waiting connection can be tried.
    pub(super) fn change(&mut self, from: Memory, to: Memory) -> bool {
        let (before, after) = (self.beyond(from.granted), self.beyond(to.granted));
        self.held = self.held - (from.raw + from.granted) + (to.raw + to.granted);
        self.common = self.common - before + after;
        after < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_there_for_each_when_nothing_else_is() {
        let mut pool = Pool::new(120, (14, 4), 5);
        let of = |granted| Memory { raw: 0, granted };
        assert!(pool.fits(0, 60, false) && !pool.fits(0, 61, false));
        pool.change(of(0), of(60));
        assert!(!pool.fits(0, 11, false) && pool.fits(0, 10, true));
        pool.change(of(0), of(10));
        assert!(!pool.fits(10, 1, false));
        assert!(pool.change(of(60), of(59)));
        assert!(pool.fits(10, 1, false) && !pool.fits(10, 1, true));
        assert_eq!(pool.held(), 69);
    }

    #[test]
    fn bytes_that_come_to_a_connection_without_share_take_nothing_of_others() {
        let mut pool = Pool::new(120, (14, 4), 5);
        let (none, all) = (Memory { raw: 0, granted: 0 }, Memory { raw: 0, granted: 60 });
        pool.change(none, all);
        // Nothing is asked before they come.
        pool.change(all, Memory { raw: 4, ..all });
        for _ in 0..4 {
            assert!(pool.fits(0, 10, true));
            pool.change(none, Memory { raw: 4, granted: 10 });
        }
        assert_eq!(pool.held(), 120);
    }
}
