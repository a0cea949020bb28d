//! The server's memory: an LRU cache, counted in bytes.

use std::collections::BTreeMap;

/// The key of an entry: a data block, a directory or an inode of a node.
pub(super) type Key = (u32, u32);

pub(super) struct Cache {
    most_bytes: u64,
    bytes: u64,
    used: u64,
    by_key: BTreeMap<Key, (u64, u64)>,
    by_use: BTreeMap<u64, Key>,
}

impl Cache {
    pub(super) fn new(most_bytes: u64) -> Cache {
        Cache { most_bytes, bytes: 0, used: 0, by_key: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// Uses an entry of this size, and adds it if it is missing. Returns false if it was missing.
    pub(super) fn touch(&mut self, key: Key, bytes: u64) -> bool {
        self.used += 1;
        let old = self.by_key.insert(key, (self.used, bytes));
        self.by_use.insert(self.used, key);
        self.bytes += bytes;
        if let Some((used, bytes)) = old {
            self.by_use.remove(&used);
            self.bytes -= bytes;
        }
        while self.bytes > self.most_bytes {
            let Some((_, key)) = self.by_use.pop_first() else { break };
            if let Some((_, bytes)) = self.by_key.remove(&key) {
                self.bytes -= bytes;
            }
        }
        old.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut cache = Cache::new(3);
        assert!(!cache.touch((1, 0), 1) && !cache.touch((2, 0), 1) && !cache.touch((3, 0), 1));
        assert!(cache.touch((1, 0), 1));
        assert!(!cache.touch((4, 0), 1));
        assert!(!cache.touch((2, 0), 1), "it went");
        assert!(cache.touch((1, 0), 1));
    }
}
