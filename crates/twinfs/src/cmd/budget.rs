//! Divides the memory of a mount between blocks and everything else.
//!
//! Measured, not computed: a daemon whose clients write, read and overwrite large and small files
//! at random has at most some 110 MiB and 1.25 to 1.65 times its cache, for a block keeps
//! neighbours of its buffer in memory, and freed memory is not all of use. `cargo xtask e2e
//! memory` holds a mount to what is promised here (with `--mkfs '--layout ffs'` the other layout).

use crate::cli::Mount;
use crate::size::Size;

/// The memory of a daemon beside its blocks: buffers, inodes, tables, the program.
const BESIDE: u64 = 128 << 20;
/// Blocks of so many bytes take so many bytes of memory.
const SHARE: (u64, u64) = (4, 7);
/// The smallest useful cache, in bytes.
const LEAST_CACHE: u64 = 8 << 20;

/// Bytes of the cache of a mount.
///
/// # Errors
/// If `--memory` is too little to work with.
pub(super) fn cache_bytes(args: &Mount) -> Result<u64, String> {
    let Some(memory) = args.memory else { return Ok(args.cache.0) };
    let cache = memory.0.saturating_sub(BESIDE) / SHARE.1 * SHARE.0;
    if cache < LEAST_CACHE {
        let least = BESIDE + LEAST_CACHE / SHARE.0 * SHARE.1;
        return Err(format!("--memory {memory}: a daemon needs {} at least", Size(least)));
    }
    Ok(cache)
}

/// The most memory of a mount with such a cache, in bytes.
pub(super) fn memory_bytes(cache: u64) -> u64 {
    BESIDE + cache / SHARE.0 * SHARE.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        mount: Mount,
    }

    fn cache(options: &[&str]) -> Result<u64, String> {
        let words = ["mount"].iter().chain(options).chain(&["disk.img", "mnt"]);
        let line = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        cache_bytes(&line.mount)
    }

    #[test]
    fn blocks_get_their_share_of_what_is_left() {
        assert_eq!(cache(&[]), Ok(256 << 20));
        assert_eq!(cache(&["--cache", "16M"]), Ok(16 << 20));
        assert_eq!(cache(&["--memory", "576M"]), Ok(256 << 20));
    }

    #[test]
    fn too_little_memory_is_refused_with_what_is_needed() {
        assert!(cache(&["--memory", "100M"]).unwrap_err().contains("142 MiB at least"));
        assert!(cache(&["--memory", "142M"]).is_ok());
        assert!(cache(&["--memory", "1G", "--cache", "1M"]).is_err());
    }
}
