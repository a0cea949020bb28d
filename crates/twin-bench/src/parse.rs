//! Benchmarks by name: `sizes:size=8K,total=32M`.

use twin_settings::{Named, Param, Registry, RegistryEntry, SettingsError, Unit, Values, help_of};

use super::Benchmark;
use super::andrew::Andrew;
use super::files::{Files, count_for};
use super::large::Large;
use super::meta::Meta;
use super::tpcb::Tpcb;

/// Makes a benchmark from its settings and its label.
type Make = fn(&Values, String) -> Vec<Box<dyn Benchmark>>;

/// What is known of a kind of benchmark.
pub(super) struct Kind {
    params: &'static [Param],
    make: Make,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Parameters that several benchmarks share.
const UNIT: Param =
    Param::new("unit", "64K", Unit::bytes(512, BYTES_MAX), "bytes of a system call at most");
const FSYNC: Param = Param::new("fsync", "no", Unit::YesNo, "fsync each file in all phases");
const SYNCED: Param =
    Param::new("synced", "yes", Unit::YesNo, "with the phase of overwrites with fsync");
const SETTLE: Param = Param::new(
    "settle",
    "0s",
    Unit::Time(1_000_000_000, 3_600_000_000_000),
    "pause at first and before caches are emptied, for a cleaner to come to rest",
);
const WARM: Param = Param::new("warm", "no", Unit::YesNo, "leave caches alone");

/// The largest count of a setting.
const COUNT_MAX: u64 = 1 << 40;
/// The largest size of a setting, in bytes.
const BYTES_MAX: u64 = 1 << 46;

/// All benchmarks.
pub(super) static REGISTRY: Registry<Kind> = Registry::new(
    "benchmark",
    &[
        RegistryEntry::new(
            "small",
            "create, read, stat and delete small files",
            Kind {
                params: &[
                    Param::new("files", "10000", Unit::number(1, COUNT_MAX), "files"),
                    Param::new("size", "1K", Unit::bytes(1, BYTES_MAX), "bytes of each"),
                    Param::new("fsync", "no", Unit::YesNo, "fsync each"),
                    WARM,
                    Param::new(
                        "kernel",
                        "no",
                        Unit::YesNo,
                        "empty the kernel's caches only, not a daemon's",
                    ),
                    Param::new(
                        "users",
                        "1",
                        Unit::number(1, 1000),
                        "users at a time, each with as many files",
                    ),
                ],
                make: |values, label| {
                    vec![Box::new(Files {
                        count: values.number("files"),
                        size: values.number("size"),
                        unit: 64 * KIB,
                        sizes: false,
                        synced: false,
                        fsync: values.yes("fsync"),
                        warm: values.yes("warm"),
                        kernel: values.yes("kernel"),
                        settle_ns: 0,
                        users: values.number("users"),
                        first: 0,
                        label,
                    })]
                },
            },
        ),
        RegistryEntry::new(
            "large",
            "one large file in five passes of 8 KB: sequential, random, sequential again",
            Kind {
                params: &[
                    Param::new("mb", "100", Unit::number(1, COUNT_MAX), "MiB of the file"),
                    Param::new(
                        "random",
                        "25%",
                        Unit::Percent(100),
                        "the share of it that random passes touch",
                    ),
                    Param::new("seed", "1", Unit::number(0, COUNT_MAX), "of the random order"),
                    Param::new(
                        "kernel",
                        "no",
                        Unit::YesNo,
                        "empty the kernel's caches only, not a daemon's",
                    ),
                ],
                make: |values, label| {
                    vec![Box::new(Large {
                        mib: values.number("mb"),
                        random_percent: values.number("random"),
                        seed: values.number("seed"),
                        kernel: values.yes("kernel"),
                        label,
                    })]
                },
            },
        ),
        RegistryEntry::new(
            "sizes",
            "create, read, overwrite (also with fsync) and delete files of one size",
            Kind {
                params: &[
                    Param::new("size", "8K", Unit::bytes(1, BYTES_MAX), "bytes of a file"),
                    Param::new("total", "32M", Unit::bytes(1, BYTES_MAX), "bytes of all files"),
                    Param::new("least", "1", Unit::number(1, COUNT_MAX), "files at least"),
                    UNIT,
                    FSYNC,
                    SYNCED,
                    SETTLE,
                    WARM,
                ],
                make: |values, label| vec![Box::new(sizes(values, values.number("size"), label))],
            },
        ),
        RegistryEntry::new(
            "sweep",
            "`sizes` for 1 KB to `to`, each twice the one before",
            Kind {
                params: &[
                    Param::new(
                        "from",
                        "1K",
                        Unit::bytes(1, BYTES_MAX),
                        "bytes of the smallest files",
                    ),
                    Param::new("to", "32M", Unit::bytes(1, BYTES_MAX), "bytes of the largest"),
                    Param::new(
                        "total",
                        "32M",
                        Unit::bytes(1, BYTES_MAX),
                        "bytes of all files of one size",
                    ),
                    Param::new(
                        "least",
                        "1",
                        Unit::number(1, COUNT_MAX),
                        "files of one size at least",
                    ),
                    UNIT,
                    FSYNC,
                    SYNCED,
                    SETTLE,
                    WARM,
                ],
                make: |values, _| {
                    let each = |size| {
                        let label = format!("sizes:size={}", human(size));
                        Box::new(sizes(values, size, label)) as Box<dyn Benchmark>
                    };
                    sweep_sizes(values.number("from"), values.number("to"))
                        .into_iter()
                        .map(each)
                        .collect()
                },
            },
        ),
        RegistryEntry::new(
            "andrew",
            "the Andrew benchmark: copy, scan, read and compile a small tree",
            Kind {
                params: &[
                    Param::new("users", "1", Unit::number(1, 1000), "users at a time"),
                    Param::new("rounds", "1", Unit::number(1, COUNT_MAX), "rounds of each user"),
                    Param::new("seed", "1", Unit::number(0, COUNT_MAX), "of the sizes"),
                    Param::new(
                        "compile",
                        "2s",
                        Unit::SECONDS,
                        "processor time of compiling a file; linking takes twice as long",
                    ),
                ],
                make: |values, label| {
                    vec![Box::new(Andrew {
                        users: values.number("users"),
                        rounds: values.number("rounds"),
                        seed: values.number("seed"),
                        compile_ns: values.number("compile"),
                        label,
                    })]
                },
            },
        ),
        RegistryEntry::new(
            "meta",
            "make, rename, link, list, look up and remove names in one directory",
            Kind {
                params: &[Param::new(
                    "names",
                    "10000",
                    Unit::number(1, COUNT_MAX),
                    "names of each kind",
                )],
                make: |values, label| vec![Box::new(Meta { names: values.number("names"), label })],
            },
        ),
        RegistryEntry::new(
            "tpcb",
            "random pages read and rewritten, with a history and a log",
            Kind {
                params: &[
                    Param::new("transactions", "2000", Unit::number(1, COUNT_MAX), "transactions"),
                    Param::new(
                        "accounts",
                        "100000",
                        Unit::number(1, COUNT_MAX),
                        "account records of 100 bytes",
                    ),
                    Param::new("page", "40", Unit::number(1, 40), "records on a page of 4 KB"),
                    Param::new(
                        "cached",
                        "0",
                        Unit::number(0, COUNT_MAX),
                        "pages of the database's own cache; 0 writes each page at once",
                    ),
                    Param::new(
                        "warm",
                        "0",
                        Unit::number(0, COUNT_MAX),
                        "transactions before the clock starts, after those that fill that cache",
                    ),
                    Param::new("log", "yes", Unit::YesNo, "the log is on this volume"),
                    Param::new(
                        "group",
                        "1",
                        Unit::number(1, COUNT_MAX),
                        "transactions made durable at once",
                    ),
                    Param::new("scan", "yes", Unit::YesNo, "a scan at the end"),
                    Param::new("seed", "1", Unit::number(0, COUNT_MAX), "of the accounts"),
                    Param::new(
                        "kernel",
                        "no",
                        Unit::YesNo,
                        "empty the kernel's caches only, not a daemon's",
                    ),
                ],
                make: |values, label| {
                    vec![Box::new(Tpcb {
                        transactions: values.number("transactions"),
                        accounts: values.number("accounts"),
                        per_page: values.number("page"),
                        cached: values.number("cached"),
                        warm: values.number("warm"),
                        log: values.yes("log"),
                        group: values.number("group"),
                        scan: values.yes("scan"),
                        kernel: values.yes("kernel"),
                        seed: values.number("seed"),
                        label,
                    })]
                },
            },
        ),
    ],
);

fn sizes(values: &Values, size: u64, label: String) -> Files {
    Files {
        count: count_for(values.number("total"), size, values.number("least")),
        size,
        unit: values.number("unit"),
        sizes: true,
        synced: values.yes("synced"),
        fsync: values.yes("fsync"),
        warm: values.yes("warm"),
        kernel: false,
        settle_ns: values.number("settle"),
        users: 1,
        first: 0,
        label,
    }
}

/// Sizes from `from` up to `to`, each twice the one before.
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

/// Parses a description: returns the benchmarks that it stands for.
///
/// # Errors
/// If the name or a setting does not exist, or a value is out of its range.
pub fn parse(text: &str) -> Result<Vec<Box<dyn Benchmark>>, SettingsError> {
    let named = Named::parse(text)?;
    let entry = REGISTRY.get(named.name)?;
    let mut values = Values::of(&[entry.params]);
    values.apply(named.settings).map_err(|error| error.within(entry.name))?;
    Ok((entry.make)(&values, text.to_string()))
}

/// Help on the benchmarks and their settings.
pub fn help() -> String {
    let mut out = String::from("Benchmarks (name, or name:key=value,...):\n");
    for entry in &REGISTRY {
        out += &format!("  {:<8} {}\n", entry.name, entry.about);
        out += &help_of(entry.params, "    ");
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
