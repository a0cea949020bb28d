//! The memory of calls and replies.
//!
//! Contract: all connections together use at most `total` bytes. Each connection owns a share, which
//! it can always use; the rest of the total is common. A connection uses its own share first, and
//! only its bytes beyond the share count as common. So the sum is bounded by the shares of all
//! connections and the common limit, and one client cannot take the last bytes of another.
//!
//! The caller asks [`Pool::fits`] before a connection grows, and reports each change of its bytes by
//! [`Pool::change`]. A change that was not asked for, or not reported, breaks the bound for all.

/// The memory that calls and replies of all connections share; the module explains its bound.
#[derive(Debug)]
pub(super) struct Pool {
    share: usize,
    /// The most that is held beyond the shares.
    limit: usize,
    /// Memory in use beyond the shares of connections.
    common: usize,
    held: usize,
}

impl Pool {
    /// A pool of `total` bytes for `connections` connections, each of which owns `share` bytes.
    pub(super) fn new(total: usize, share: usize, connections: usize) -> Pool {
        let limit = total.saturating_sub(share.saturating_mul(connections));
        Pool { share, limit, common: 0, held: 0 }
    }

    /// Number of bytes that are in use.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The part of `held` that is beyond a share.
    pub(super) fn beyond(&self, held: usize) -> usize {
        held.saturating_sub(self.share)
    }

    /// True if a connection that uses `held` bytes may use `more`. With `own` it must stay within its
    /// share, because others wait for common memory.
    pub(super) fn fits(&self, held: usize, more: usize, own: bool) -> bool {
        let after = self.beyond(held.saturating_add(more));
        let grows = after - self.beyond(held);
        grows == 0 || !own && grows <= self.limit.saturating_sub(self.common)
    }

    /// A connection uses `to` bytes now instead of `from`. True if common memory became free, so that
    /// the next waiting connection can be tried.
    pub(super) fn change(&mut self, from: usize, to: usize) -> bool {
        let (before, after) = (self.beyond(from), self.beyond(to));
        self.held = self.held - from + to;
        self.common = self.common - before + after;
        after < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_there_for_each_when_nothing_else_is() {
        let mut pool = Pool::new(100, 10, 5);
        assert!(pool.fits(0, 60, false) && !pool.fits(0, 61, false));
        pool.change(0, 60);
        assert!(!pool.fits(0, 11, false) && pool.fits(0, 10, true));
        pool.change(0, 10);
        assert!(!pool.fits(10, 1, false));
        assert!(pool.change(60, 59));
        assert!(pool.fits(10, 1, false) && !pool.fits(10, 1, true));
        assert_eq!(pool.held(), 69);
    }
}
