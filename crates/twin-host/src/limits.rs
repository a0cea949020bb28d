//! The limits that a process inherits from the shell that starts it (`ulimit`).
//!
//! Contract: a daemon outlives the shell, and serves others than its user. A limit that was meant for
//! something else must not end it in the middle of a write. So a daemon takes what it may have: each
//! limit is raised to its hard one, and the superuser's are lifted. Where a hard limit is left that
//! would end the daemon, it refuses to start, before anything is opened, with the limit and the
//! remedy. The limit on the size of files is looked at where an image is opened, for it depends on the
//! image.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a daemon needs at least, in itself and for libraries.
const DESCRIPTORS: u64 = 64;
/// The stack of the core's thread, in bytes.
const STACK: u64 = 8 << 20;
/// The smallest stack with which it works.
const LEAST_STACK: u64 = 1 << 20;
/// Addresses beside memory that is used: the program, libraries, stacks of threads, and what the C
/// library sets apart for its heaps.
const ADDRESSES_BESIDE: u64 = 512 << 20;
/// Memory that counts as data besides: stacks of threads.
const DATA_BESIDE: u64 = 64 << 20;

/// Takes as much as this process may have. `memory` is what it will use, in bytes.
///
/// # Errors
/// The first limit that would end it, with the remedy.
pub fn take_limits(memory: u64) -> Result<(), String> {
    // These limits are only raised: exceeding one of them gives an error and does not end the
    // process.
    for resource in [Resource::Fsize, Resource::Memlock, Resource::Nproc] {
        raised(resource, None);
    }
    if let Some(seconds) = raised(Resource::Cpu, None) {
        let when = "when it has computed for so long";
        return Err(refusal("processor time", &format!("{seconds} s"), "-t", "cpu", when));
    }
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let of_memory = [
        (Resource::As, "address space", ADDRESSES_BESIDE, "-v", "as"),
        (Resource::Data, "data", DATA_BESIDE, "-d", "data"),
    ];
    for (resource, what, beside, flag, name) in of_memory {
        let needs = memory.saturating_add(beside);
        if let Some(limit) = raised(resource, None).filter(|&limit| limit < needs) {
            let when = format!("which needs up to {}, when it has used that up", mib(needs));
            let text = refusal(what, &mib(limit), flag, name, &when);
            return Err(format!("{text}; a smaller --cache or --memory needs less"));
        }
    }
    if let Some(limit) = raised(Resource::Nofile, None).filter(|&limit| limit < DESCRIPTORS) {
        let when = format!("which needs {DESCRIPTORS} at least");
        return Err(refusal("open files", &limit.to_string(), "-n", "nofile", &when));
    }
    if let Some(limit) = raised(Resource::Stack, Some(STACK)).filter(|&limit| limit < LEAST_STACK) {
        let when = format!("which needs {} KiB of stack", LEAST_STACK >> 10);
        return Err(refusal("the stack", &format!("{} KiB", limit >> 10), "-s", "stack", &when));
    }
    Ok(())
}

/// The largest file that this process may write, in bytes; `None` without a limit.
pub fn file_size_limit() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// The remedy for a limit on the size of files.
pub(crate) const FILE_SIZE_REMEDY: &str = "start it from a shell without that limit (`ulimit -f \
    unlimited`; a hard limit can only be raised by root: `prlimit --fsize=unlimited --pid $$`)";

fn refusal(what: &str, limit: &str, flag: &str, name: &str, when: &str) -> String {
    format!(
        "the limit on {what}, {limit} (`ulimit -H {flag}`), would end the daemon, {when}: start it from \
         a shell without that limit (a hard limit can only be raised by root: \
         `prlimit --{name}=unlimited --pid $$`)"
    )
}

/// Raises a limit as far as this process may, to `enough` if that is given. Returns what it is then;
/// `None` if it is none.
fn raised(resource: Resource, enough: Option<u64>) -> Option<u64> {
    let is_enough = |limit: Option<u64>| match (limit, enough) {
        (None, _) => true,
        (Some(limit), Some(enough)) => limit >= enough,
        (Some(_), None) => false,
    };
    let there = getrlimit(resource);
    if is_enough(there.current) {
        return there.current;
    }
    // Only the superuser may lift a hard limit.
    let maximum = if is_enough(there.maximum) { there.maximum } else { enough };
    let lifted = Rlimit { current: enough.or(maximum), maximum };
    if setrlimit(resource, lifted).is_err() {
        let _ = setrlimit(resource, Rlimit { current: there.maximum, ..there });
    }
    getrlimit(resource).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_with_its_size_and_the_remedy() {
        let text =
            refusal("processor time", "60 s", "-t", "cpu", "when it has computed for so long");
        assert!(
            text.contains("60 s (`ulimit -H -t`)") && text.contains("prlimit --cpu="),
            "{text}"
        );
    }

    #[test]
    fn what_is_enough_stays_as_it_is() {
        // Whatever the limits of this process are, asking for nothing changes nothing.
        let before = getrlimit(Resource::Stack);
        assert_eq!(raised(Resource::Stack, Some(0)), before.current);
        assert_eq!(getrlimit(Resource::Stack), before);
    }
}
