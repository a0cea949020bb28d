//! The costs of a processor that a configuration sets, in place of its machine's own.

/// Costs of a processor that replace the machine's own, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Preparing a device request.
    pub request_ns: Option<u64>,
    /// Handling a block in the cache.
    pub block_ns: Option<u64>,
    /// Copying 4 KB between client and cache.
    pub copy_ns: Option<u64>,
    /// Removing a name.
    pub remove_ns: Option<u64>,
}
