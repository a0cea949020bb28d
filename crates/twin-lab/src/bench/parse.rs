//! Benchmarks by name: `sizes:size=8K,total=32M`.

use std::fmt;

use super::Benchmark;
use super::andrew::Andrew;
use super::files::{Files, count_for};
use super::large::Large;
use super::meta::Meta;
use super::tpcb::Tpcb;

/// What is wrong with the text of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchError(String);

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BenchError {}

/// A setting: its name, its value unless told otherwise, and what it is.
type Param = (&'static str, u64, &'static str);

/// Makes a benchmark from its settings and its label.
type Make = fn(&dyn Fn(&str) -> u64, String) -> Vec<Box<dyn Benchmark>>;

struct Kind {
    name: &'static str,
    about: &'static str,
    params: &'static [Param],
    make: Make,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const KINDS: &[Kind] = &[
    Kind {
        name: "small",
        about: "create, read, stat and delete small files",
        params: &[
            ("files", 10_000, "files"),
            ("size", KIB, "bytes of each"),
            ("fsync", 0, "1: fsync each"),
            ("warm", 0, "1: leave caches alone"),
            ("kernel", 0, "1: empty the kernel's caches only, not a daemon's"),
            ("users", 1, "users at a time, each with as many files"),
        ],
        make: |get, label| {
            vec![Box::new(Files {
                count: get("files").max(1),
                size: get("size").max(1),
                unit: 64 * KIB,
                sizes: false,
                synced: false,
                fsync: get("fsync") != 0,
                warm: get("warm") != 0,
                kernel: get("kernel") != 0,
                users: get("users").clamp(1, 1000),
                first: 0,
                label,
            })]
        },
    },
    Kind {
        name: "large",
        about: "one large file in five passes of 8 KB: sequential, random, sequential again",
        params: &[
            ("mb", 100, "MiB of the file"),
            ("random", 25, "percent of it that random passes touch"),
            ("seed", 1, "of the random order"),
            ("kernel", 0, "1: empty the kernel's caches only, not a daemon's"),
        ],
        make: |get, label| {
            vec![Box::new(Large {
                mib: get("mb").max(1),
                random_percent: get("random").min(100),
                seed: get("seed"),
                kernel: get("kernel") != 0,
                label,
            })]
        },
    },
    Kind {
        name: "sizes",
        about: "create, read, overwrite (also with fsync) and delete files of one size",
        params: &[
            ("size", 8 * KIB, "bytes of a file"),
            ("total", 32 * MIB, "bytes of all files"),
            ("least", 1, "files at least"),
            ("unit", 64 * KIB, "bytes of a system call at most"),
            ("fsync", 0, "1: fsync each file in all phases"),
            ("synced", 1, "0: without the phase of overwrites with fsync"),
            ("warm", 0, "1: leave caches alone"),
        ],
        make: |get, label| vec![Box::new(sizes(get, get("size"), label))],
    },
    Kind {
        name: "sweep",
        about: "`sizes` for 1 KB to `to`, each twice the one before",
        params: &[
            ("from", KIB, "bytes of the smallest files"),
            ("to", 32 * MIB, "bytes of the largest"),
            ("total", 32 * MIB, "bytes of all files of one size"),
            ("least", 1, "files of one size at least"),
            ("unit", 64 * KIB, "bytes of a system call at most"),
            ("fsync", 0, "1: fsync each file in all phases"),
            ("synced", 1, "0: without the phase of overwrites with fsync"),
            ("warm", 0, "1: leave caches alone"),
        ],
        make: |get, _| {
            let each = |size| {
                let label = format!("sizes:size={}", human(size));
                Box::new(sizes(get, size, label)) as Box<dyn Benchmark>
            };
            sweep_sizes(get("from"), get("to")).into_iter().map(each).collect()
        },
    },
    Kind {
        name: "andrew",
        about: "the Andrew benchmark: copy, scan, read and compile a small tree",
        params: &[
            ("users", 1, "users at a time"),
            ("rounds", 1, "times that each does it"),
            ("seed", 1, "of the sizes"),
        ],
        make: |get, label| {
            vec![Box::new(Andrew {
                users: get("users").max(1),
                rounds: get("rounds").max(1),
                seed: get("seed"),
                label,
            })]
        },
    },
    Kind {
        name: "meta",
        about: "make, rename, link, list, look up and remove names in one directory",
        params: &[("names", 10_000, "names of each kind")],
        make: |get, label| vec![Box::new(Meta { names: get("names").max(1), label })],
    },
    Kind {
        name: "tpcb",
        about: "random pages read and rewritten, with a history and a log",
        params: &[
            ("transactions", 2000, "transactions"),
            ("accounts", 100_000, "account records of 100 bytes"),
            ("page", 40, "records on a page of 4 KB"),
            ("cached", 0, "pages of the database's own cache; 0 writes each page at once"),
            ("warm", 0, "transactions before the clock starts, beside those that fill that cache"),
            ("log", 1, "0: the log is elsewhere"),
            ("group", 1, "transactions made durable at once"),
            ("scan", 1, "0: no scan at the end"),
            ("seed", 1, "of the accounts"),
            ("kernel", 0, "1: empty the kernel's caches only, not a daemon's"),
        ],
        make: |get, label| {
            vec![Box::new(Tpcb {
                transactions: get("transactions").max(1),
                accounts: get("accounts").max(1),
                per_page: get("page").clamp(1, 40),
                cached: get("cached"),
                warm: get("warm"),
                log: get("log") != 0,
                group: get("group").max(1),
                scan: get("scan") != 0,
                kernel: get("kernel") != 0,
                seed: get("seed"),
                label,
            })]
        },
    },
];

fn sizes(get: &dyn Fn(&str) -> u64, size: u64, label: String) -> Files {
    let size = size.max(1);
    Files {
        count: count_for(get("total"), size, get("least")),
        size,
        unit: get("unit").max(512),
        sizes: true,
        synced: get("synced") != 0,
        fsync: get("fsync") != 0,
        warm: get("warm") != 0,
        kernel: false,
        users: 1,
        first: 0,
        label,
    }
}

/// Sizes from one to another, each twice the one before.
pub fn sweep_sizes(from: u64, to: u64) -> Vec<u64> {
    let mut all = Vec::new();
    let mut size = from.max(1);
    while size <= to {
        all.push(size);
        size *= 2;
    }
    all
}

fn human(bytes: u64) -> String {
    match bytes {
        b if b >= MIB && b.is_multiple_of(MIB) => format!("{}M", b / MIB),
        b if b >= KIB && b.is_multiple_of(KIB) => format!("{}K", b / KIB),
        b => b.to_string(),
    }
}

/// Reads a benchmark from its text: the benchmarks that it stands for.
///
/// # Errors
/// If the name or a setting does not exist; the message lists those that do.
pub fn parse(text: &str) -> Result<Vec<Box<dyn Benchmark>>, BenchError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let Some(kind) = KINDS.iter().find(|k| k.name == name) else {
        let known: Vec<_> = KINDS.iter().map(|k| k.name).collect();
        let known = known.join(", ");
        return Err(BenchError(format!("there is no benchmark {name:?}; choose one of: {known}")));
    };
    let mut values: Vec<u64> = kind.params.iter().map(|p| p.1).collect();
    for pair in rest.split(',').filter(|p| !p.is_empty()) {
        let place = pair
            .split_once('=')
            .and_then(|(key, value)| Some((kind.params.iter().position(|p| p.0 == key)?, value)));
        let Some((place, value)) = place else {
            let known: Vec<_> = kind.params.iter().map(|p| p.0).collect();
            let known = known.join(", ");
            return Err(BenchError(format!("{text}: {pair:?} cannot be set; these can: {known}")));
        };
        let bytes =
            twin_settings::value::bytes(value).map_err(|e| BenchError(format!("{text}: {e}")))?;
        values[place] = bytes;
    }
    let get = |key: &str| {
        let at = kind.params.iter().position(|p| p.0 == key);
        at.map_or(0, |at| values[at])
    };
    Ok((kind.make)(&get, text.to_string()))
}

/// The benchmarks and their settings, for people.
pub fn help() -> String {
    let mut out = String::from("Benchmarks (name, or name:key=value,...):\n");
    for kind in KINDS {
        out += &format!("  {:<8} {}\n", kind.name, kind.about);
        for (key, value, about) in kind.params {
            out += &format!("    {key:<13} {about} ({})\n", human(*value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_one_benchmark_a_size() {
        let all = parse("sweep:to=32M").unwrap();
        assert_eq!(all.len(), 16);
        assert_eq!(all[3].label(), "sizes:size=8K");
    }

    #[test]
    fn mistakes_are_told_with_what_there_is() {
        for (text, word) in
            [("fast", "small"), ("small:count=3", "files"), ("small:files=many", "not a number")]
        {
            let error = parse(text).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
