//! INIT: agrees with the kernel on the features of the session.

use rustix::io::Errno;

use super::abi::{self, InitIn, InitOut, init};
use super::options::{Agreed, SessionOptions};

/// Returns the answer to INIT, and its meaning for the session.
///
/// # Errors
/// EPROTO if the kernel speaks an older protocol than we support.
pub(super) fn negotiate(
    asked: &InitIn,
    flags2: u32,
    options: &SessionOptions,
) -> Result<(InitOut, Agreed), Errno> {
    if asked.major > abi::MAJOR {
        // The kernel repeats the request with the version that we name.
        let out = InitOut { major: abi::MAJOR, minor: abi::MINOR, ..InitOut::default() };
        return Ok((out, Agreed::default()));
    }
    if asked.major < abi::MAJOR || asked.minor < abi::OLDEST_MINOR {
        return Err(Errno::PROTO);
    }
    let offered = u64::from(asked.flags) | u64::from(flags2) << 32;
    let flags = offered & wanted(options);
    let has = |flag| flags & flag != 0;
    // Without MAX_PAGES a request has at most 32 pages.
    let max_write = if has(init::MAX_PAGES) { options.max_write } else { 128 << 10 };
    let out = InitOut {
        major: abi::MAJOR,
        minor: abi::MINOR.min(asked.minor),
        max_readahead: asked.max_readahead.max(options.max_write),
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: options.max_background,
        congestion_threshold: options.max_background / 4 * 3,
        max_write,
        time_gran: 1,
        max_pages: (max_write / 4096) as u16,
        ..InitOut::default()
    };
    let agreed = Agreed {
        started: true,
        kill_privileges: has(init::HANDLE_KILLPRIV_V2),
        no_open: has(init::NO_OPEN_SUPPORT),
        no_opendir: has(init::NO_OPENDIR_SUPPORT),
        writeback: has(init::WRITEBACK_CACHE),
        passes_umask: has(init::DONT_MASK),
        tells_written: asked.minor >= abi::TELLS_WRITTEN_MINOR,
        gated: has(init::WRITEBACK_CACHE) && options.exclusive && asked.minor >= abi::GATED_MINOR,
    };
    Ok((out, agreed))
}

fn wanted(options: &SessionOptions) -> u64 {
    let always = init::ASYNC_READ
        | init::EXPORT_SUPPORT
        | init::BIG_WRITES
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        | init::MAX_PAGES
        | init::CACHE_SYMLINKS
        | init::HANDLE_KILLPRIV_V2
        | init::INIT_EXT;
    let or_none = |condition: bool, flags: u64| if condition { flags } else { 0 };
    // If opens are no requests, a truncating open would not reach us: the kernel must then
    // truncate with a request of its own.
    let opens = if options.executes_opens() {
        init::ATOMIC_O_TRUNC
    } else {
        init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT
    };
    let data = if options.exclusive { init::EXPLICIT_INVAL_DATA } else { init::AUTO_INVAL_DATA };
    always
        | opens
        | data
        | or_none(options.serves_acls(), init::POSIX_ACL | init::DONT_MASK)
        | or_none(options.writeback_cache, init::WRITEBACK_CACHE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(minor: u32, flags: u64) -> InitIn {
        InitIn { major: 7, minor, max_readahead: 131_072, flags: flags as u32 }
    }

    #[test]
    fn nothing_is_taken_that_was_not_offered() {
        let options = SessionOptions::default();
        let (out, agreed) = negotiate(&asked(31, init::ASYNC_READ), 0, &options).unwrap();
        assert_eq!(u64::from(out.flags), init::ASYNC_READ);
        assert_eq!(out.max_write, 128 << 10);
        assert!(!agreed.no_open && !agreed.kill_privileges);
    }

    #[test]
    fn a_modern_kernel_gets_requests_of_a_mebibyte() {
        let options = SessionOptions::default();
        let (out, agreed) = negotiate(&asked(99, u64::MAX), u32::MAX, &options).unwrap();
        assert_eq!((out.max_write, out.max_pages, out.minor), (1 << 20, 256, abi::MINOR));
        assert!(agreed.no_open && agreed.kill_privileges);
        assert_eq!(u64::from(out.flags) & init::ATOMIC_O_TRUNC, 0);
    }

    #[test]
    fn counted_opens_truncate_by_themselves() {
        let options = SessionOptions { count_opens: true, ..SessionOptions::default() };
        let (out, agreed) = negotiate(&asked(40, u64::MAX), 0, &options).unwrap();
        assert_ne!(u64::from(out.flags) & init::ATOMIC_O_TRUNC, 0);
        assert!(!agreed.no_open);
    }

    #[test]
    fn a_kernel_that_checks_reads_acls_and_leaves_the_umask_to_us() {
        let with = |acls, xattrs, kernel_checks| {
            let all = SessionOptions::default();
            let options = SessionOptions { acls, xattrs, kernel_checks, ..all };
            let (out, agreed) = negotiate(&asked(40, u64::MAX), 0, &options).unwrap();
            let flags = u64::from(out.flags) & (init::DONT_MASK | init::POSIX_ACL);
            assert_eq!(agreed.passes_umask, flags != 0);
            flags
        };
        assert_eq!(with(true, true, true), init::DONT_MASK | init::POSIX_ACL);
        assert_eq!(with(false, true, true), 0);
        assert_eq!(with(true, false, true), 0);
        assert_eq!(with(true, true, false), 0);
    }

    #[test]
    fn an_old_kernel_is_refused() {
        let options = SessionOptions::default();
        assert_eq!(negotiate(&asked(30, 0), 0, &options).unwrap_err(), Errno::PROTO);
    }
}
