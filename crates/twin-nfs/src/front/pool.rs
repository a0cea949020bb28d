//! The memory of calls and replies.
//!
//! Contract: what all connections hold together is at most the total, because each may have its share, of
//! which there are no more than connections, and what is beyond the shares is counted in common.

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

    /// True if a connection that holds `held` bytes may take more; `own`: within its share.
    pub(super) fn fits(&self, held: usize, more: usize, own: bool) -> bool {
        let after = self.beyond(held.saturating_add(more));
        let grows = after - self.beyond(held);
        grows == 0 || !own && grows <= self.limit.saturating_sub(self.common)
    }

    /// A connection holds another number of bytes now. True if common room became free.
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
