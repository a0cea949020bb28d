//! Every setting has an effect or is refused: none is accepted and ignored, and no combination of
//! sizes, orderings and disks ends in an I/O error or is reported as damage.

use std::sync::atomic::{AtomicUsize, Ordering};

use twin_lab::{Config, Figures, Workload, compare, presets, settings_help, simulate};
use twin_trace::replay::Pace;

/// Names under a title of the help, which is generated from the registries.
fn names(title: &str) -> Vec<String> {
    let help = settings_help();
    let lines = help.lines().skip_while(|line| *line != title).skip(1);
    let named = lines.take_while(|line| !line.is_empty());
    named.filter_map(|line| line.split_whitespace().next()).map(String::from).collect()
}

fn generated(text: &str) -> Workload {
    Workload::Generated(text.into(), 1)
}

/// Runs a configuration, and returns all figures of the run except names and real time.
fn run(text: &str, workload: &str) -> Result<Figures, String> {
    let config = Config::parse(text).map_err(|e| e.to_string())?;
    let figures = simulate(&config, &generated(workload), Pace::Asap);
    let figures = figures.map_err(|e| format!("{text} runs {workload}: {e}"))?;
    Ok(Figures { config: String::new(), disk: String::new(), ..figures })
}

/// Small files in directories, with fsyncs and deletions.
const FILES: &str = "build:files=40";
/// A file of 16 MiB that is overwritten at random: a small volume with a small cache must be
/// cleaned.
const OVERWRITES: &str = "zipf:writes=6000,file-bytes=16777216";
/// Several concurrent users.
const USERS: &str = "large-file:file-bytes=4194304,clients=8";
/// A bucket, with a log whatever the layout: others are refused there.
const IN_BUCKET: &str = "layout=lfs,disk=s3-express";
/// A small volume with a small cache.
const SMALL: &str = "size=32M,cache=1M,segment=256K";
const SMALL_FFS: &str = "size=64M,cache=1M";

/// A key, other settings that it needs (for logs, for clustered volumes), a workload, and two
/// values that give different results.
type Case = (&'static str, [&'static str; 2], &'static str, [&'static str; 2]);

/// A case for each key.
const CASES: &[Case] = &[
    ("disk", ["", ""], FILES, ["hp97560", "ssd-sata"]),
    ("queue", ["cache=1M", "cache=1M"], USERS, ["fcfs", "sptf"]),
    ("cpu", ["", ""], FILES, ["modern", "sun-4-260"]),
    ("cpus", ["cpu=sun-4-260", "cpu=sun-4-260"], FILES, ["1", "4"]),
    ("bus", ["", ""], FILES, ["sun-4-260", "sparcstation-2"]),
    ("bus-rate", ["bus=sparcstation-2", "bus=sparcstation-2"], FILES, ["500K", "own"]),
    ("command-us", ["", ""], FILES, ["0", "900"]),
    ("ncq", ["cache=1M", "cache=1M"], USERS, ["1", "32"]),
    (
        "drive-read-ahead",
        ["disk=hp97560,cache=1M,read-ahead=0", "disk=hp97560,cache=1M,read-ahead=0"],
        "large-file:file-bytes=8388608",
        ["0", "128K"],
    ),
    ("report-early", ["disk=hp97560", "disk=hp97560"], FILES, ["yes", "no"]),
    ("skews", ["", ""], OVERWRITES, ["own", "90/200"]),
    ("ssd", ["disk=ssd-sata", "disk=ssd-sata"], FILES, ["own", "900/900/900/9M"]),
    ("prices", [IN_BUCKET, IN_BUCKET], FILES, ["own", "5/4/3/2/1"]),
    ("request-rate", [IN_BUCKET, IN_BUCKET], FILES, ["own", "1/1"]),
    ("outage", [IN_BUCKET, IN_BUCKET], FILES, ["own", "0s+20s"]),
    ("journal-disk", ["", ""], FILES, ["none", "pmem"]),
    ("journal-size", ["journal-disk=pmem", "journal-disk=pmem"], OVERWRITES, ["256K", "64M"]),
    ("request-us", ["bus=sparcstation-2", "bus=sparcstation-2"], FILES, ["1", "9000"]),
    ("block-us", ["", ""], FILES, ["1", "9000"]),
    ("copy-us", ["", ""], FILES, ["1", "9000"]),
    ("remove-us", ["", ""], "mail:messages=200", ["1", "9000"]),
    ("front-end", ["", ""], FILES, ["none", "fuse"]),
    ("profile", ["", ""], FILES, ["classic", "modern"]),
    ("layout", ["", ""], FILES, ["lfs", "ffs"]),
    ("ordering", ["", ""], FILES, ["sync", "async"]),
    ("write-behind", ["", ""], FILES, ["cluster", "block"]),
    ("alloc", ["", ""], OVERWRITES, ["first-fit", "cluster"]),
    ("dir-placement", ["", "size=256M,group=4M"], "mail:messages=200", ["spread", "near-parent"]),
    ("reallocate", ["", ""], FILES, ["yes", "no"]),
    ("maxcontig", ["", ""], OVERWRITES, ["1", "64"]),
    ("rotdelay", ["", "maxcontig=1"], OVERWRITES, ["0", "4"]),
    ("maxbpg", ["", "size=256M"], OVERWRITES, ["1", "2048"]),
    ("cpc", ["", "maxcontig=1,rotdelay=4"], OVERWRITES, ["0", "16"]),
    ("minfree", [SMALL, "size=24M"], OVERWRITES, ["1", "50"]),
    ("group", ["", "size=256M"], FILES, ["4M", "16M"]),
    ("geometry", ["", "maxcontig=1,rotdelay=4,cpc=16"], OVERWRITES, ["3600/45/9", "7200/64/16"]),
    ("checkpoint-segments", [SMALL, ""], OVERWRITES, ["1", "40"]),
    ("inodes", ["cache=1M", "cache=1M"], FILES, ["0", "100000"]),
    (
        "reading",
        ["cache=1M", "cache=1M"],
        "large-file:file-bytes=8388608",
        ["one-by-one", "growing"],
    ),
    ("overwrite", ["cache=1M", "cache=1M"], OVERWRITES, ["needed", "direct"]),
    ("writers-wait", [SMALL, ""], OVERWRITES, ["yes", "no"]),
    ("lazy-fsync", ["", ""], "tpcb", ["yes", "no"]),
    ("newest-first", ["cache=1M", ""], "mail:messages=200", ["yes", "no"]),
    ("inodes-with-files", ["profile=classic", ""], "mail:messages=200", ["yes", "no"]),
    ("log-copies", ["", ""], FILES, ["yes", "no"]),
    ("size", ["", ""], FILES, ["64M", "256M"]),
    ("cache", ["", ""], OVERWRITES, ["1M", "64M"]),
    ("replacement", [SMALL, SMALL_FFS], OVERWRITES, ["lru", "2q"]),
    ("flush", ["", ""], OVERWRITES, ["delayed", "segment"]),
    ("flush-age", ["flush=delayed", "flush=delayed"], FILES, ["1", "90000"]),
    (
        "mount-flush",
        ["front-end=fuse,flush=delayed,cache=1M", "front-end=fuse,flush=delayed,cache=1M"],
        OVERWRITES,
        ["yes", "no"],
    ),
    (
        "flush-by",
        ["flush=update,cache=1M", "flush=nvram-block,cache=1M"],
        OVERWRITES,
        ["flusher", "needer"],
    ),
    ("nvram", ["flush=nvram-block", "flush=nvram-block"], OVERWRITES, ["256K", "4M"]),
    (
        "nvram-reported",
        ["flush=nvram-block,nvram=256K,disk=hp97560", "flush=nvram-block,nvram=256K,disk=hp97560"],
        OVERWRITES,
        ["yes", "no"],
    ),
    ("read-ahead", ["cache=1M", "cache=1M"], "large-file:file-bytes=8388608", ["0", "1M"]),
    ("block", ["", ""], FILES, ["4K", "16K"]),
    ("frag", ["block=8K", "block=8K"], FILES, ["1K", "8K"]),
    ("segment", ["", ""], OVERWRITES, ["256K", "4M"]),
    ("victim", [SMALL, ""], OVERWRITES, ["greedy", "oldest-first"]),
    ("placement", [SMALL, ""], OVERWRITES, ["none", "sep-gc"]),
    ("when", [SMALL, ""], OVERWRITES, ["threshold", "idle"]),
    ("clean-step", [SMALL, ""], OVERWRITES, ["4096", "1048576"]),
    ("eager-indirect", ["", ""], OVERWRITES, ["yes", "no"]),
];

/// Keys that must not change the digest (see `stamps_and_bytes_give_the_same_digest`), and keys that
/// change a run only where several tasks become ready at one instant, which few runs of one volume
/// have: the tests of servers see their effect. File types change a run only if it has files with
/// their attributes, which `tests/mounted.rs` gives them.
const CHANGE_NOTHING: &[&str] = &["content", "order", "seed", "file-types"];

#[test]
fn every_key_makes_a_difference_or_is_refused_by_name() {
    let mut wrong = Vec::new();
    for key in names("Keys:") {
        if CHANGE_NOTHING.contains(&&*key) {
            continue;
        }
        let Some((_, with, workload, values)) = CASES.iter().find(|case| case.0 == key) else {
            wrong.push(format!("{key}: has no case in this test"));
            continue;
        };
        let mut taken = 0;
        for (layout, with) in ["lfs", "ffs"].iter().zip(with) {
            let text = |value: &str| format!("{layout}:{with},{key}={value}");
            match values.map(|value| run(&text(value), workload)) {
                [Ok(a), Ok(b)] if a != b => taken += 1,
                // Space that is kept free shows in a volume that becomes full.
                [Ok(_), Err(b)] if key == "minfree" && b.contains("no space left") => taken += 1,
                [Ok(_), Ok(_)] => wrong.push(format!("{}: is taken and ignored", text(values[0]))),
                [Err(a), Err(_)] if a.contains(&format!("{key} is for ")) => {}
                [a, b] => wrong.push(format!("{}: {:?} {:?}", text(values[0]), a.err(), b.err())),
            }
        }
        if taken == 0 {
            wrong.push(format!("{key}: neither layout takes it"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Every replacement policy under both layouts, with a cache that is far too small and is read from
/// all the time: the replay compares every read with what was written. Policies differ in what they
/// read from the disk; the optimum cannot be had.
#[test]
fn every_replacement_policy_runs_on_both_layouts() {
    let policies = names("Replacement policies:");
    let reads = "zipf:writes=3000,reads=50%,file-bytes=8388608";
    for layout in ["lfs:size=64M", "ffs:size=64M"] {
        let mut disk_reads = std::collections::BTreeSet::new();
        for policy in &policies {
            let figures = run(&format!("{layout},cache=1M,replacement={policy}"), reads);
            let figures = figures.unwrap_or_else(|why| panic!("{policy}: {why}"));
            assert_eq!(figures.failed, 0, "{layout}, {policy}");
            disk_reads.insert(figures.disk_use.reads);
        }
        assert!(policies.len() > 12 && disk_reads.len() > 8, "{layout}: {disk_reads:?}");
        let error = Config::parse(&format!("{layout},replacement=belady")).unwrap_err().to_string();
        assert!(error.contains("needs to know all accesses in advance"), "{error}");
    }
}

#[test]
fn a_key_without_what_it_needs_is_refused_wherever_it_stands() {
    for (text, words) in [
        ("lfs:request-us=9", "set bus"),
        ("lfs:journal-size=1M", "set journal-disk"),
        ("lfs:disk=s3-standard,journal-disk=pmem", "is for disks"),
        ("lfs:journal-disk=s3-standard", "no disk for a journal"),
        ("lfs:bus-rate=1M", "set bus"),
        ("lfs-ssd:skews=1/2", "mechanical"),
        ("lfs-ssd:command-us=4", "mechanical"),
        ("lfs-ssd:ncq=4", "mechanical"),
        ("lfs:ssd=1/1/1/1M", "flat"),
        ("ffs:victim=greedy", "leave it out"),
        ("lfs:ordering=sync", "layout=ffs"),
        ("lfs:victim=greedy,layout=ffs", "victim is for layout lfs"),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(text), "{text}: {error}");
    }
    for text in ["lfs:request-us=9,bus=sun-4-260", "lfs:ordering=sync,layout=ffs"] {
        Config::parse(text).unwrap();
    }
}

/// Whether a refusal names the problem and the remedy.
fn is_clear(error: &str) -> bool {
    let names = ["block size", "fragment", "segment", "ordering", "too small", "holds", "group"];
    let remedies = ["make", "take", "choose", "must be", "needs", "ask for"];
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    has(&names) && has(&remedies) && !has(&["damaged", "reading ", "writing ", "at byte"])
}

/// Whether a configuration that is no log chooses a bucket.
fn is_in_bucket(text: &str) -> bool {
    text.contains("disk=s3-") && !text.starts_with("lfs")
}

/// The product of presets, orderings, sizes and disks. `ffs:ordering=sync`, `lfs:segment=4M` and
/// `lfs:block=8K` once failed on the default disk, with an I/O error or reported as damage.
#[test]
fn every_combination_of_sizes_orderings_and_disks_runs_or_is_refused_with_a_remedy() {
    let mut texts = Vec::new();
    let frags = ["", ",frag=512", ",frag=1K", ",frag=8K"];
    // The measured disk is that of a machine file.
    for disk in names("Disks:").into_iter().filter(|disk| disk != "measured") {
        let disk = format!("{disk},size=256M");
        texts.extend(presets().iter().map(|preset| format!("{}:disk={disk}", preset.name)));
        for block in ["1K", "4K", "8K", "16K", "64K"] {
            for frag in frags {
                for segment in ["", ",segment=64K", ",segment=512K", ",segment=4M"] {
                    for preset in ["lfs", "lfs-classic"] {
                        texts.push(format!("{preset}:disk={disk},block={block}{frag}{segment}"));
                    }
                }
                for ordering in names("Orderings:") {
                    for profile in ["modern", "classic"] {
                        texts.push(format!(
                            "ffs:profile={profile},disk={disk},ordering={ordering},block={block}{frag}"
                        ));
                    }
                }
            }
        }
    }
    let mut wrong: Vec<String> = Vec::new();
    let mut configs = Vec::new();
    for text in texts {
        match Config::parse(&text) {
            Ok(config) => configs.push(config),
            // A mount refuses it, too.
            Err(error) if is_in_bucket(&text) && error.to_string().contains("only a log fits") => {}
            // A preset's own settings were not requested by the user, so they are never refused.
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let (ran, workload) = (AtomicUsize::new(0), generated("zipf:writes=40,file-bytes=3145728"));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let results = compare(&configs, &workload, Pace::Asap, threads, &|_, _| {});
    for (config, result) in configs.iter().zip(results) {
        match result {
            Ok(figures) if figures.failed == 0 => drop(ran.fetch_add(1, Ordering::Relaxed)),
            Ok(figures) => wrong.push(format!("{}: {} failed", config.name, figures.failed)),
            Err(error) if is_clear(&error.to_string()) => {}
            Err(error) => wrong.push(format!("{}: {error}", config.name)),
        }
    }
    let count = wrong.len();
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{count} of {}:\n{}", configs.len(), wrong.join("\n"));
    let ran = ran.into_inner();
    assert!(ran * 2 > configs.len(), "{ran} of {} ran", configs.len());
}

/// The kernel's caches serve some operations and collect writes, but no client gets another answer.
#[test]
fn behind_the_kernel_s_caches_every_workload_gets_the_same_answers() {
    for workload in [FILES, OVERWRITES, USERS, "mail:messages=200", "small-files:files=300"] {
        let settings = "disk=ssd-sata,size=256M,cache=16M";
        let of = |front| run(&format!("lfs:{settings},front-end={front}"), workload).unwrap();
        let [requests, kernel] = ["fuse", "kernel"].map(of);
        assert_eq!((kernel.failed, kernel.diverged), (0, 0), "{workload}");
        assert_eq!(kernel.ops, requests.ops, "{workload}");
        assert!(requests.requests.is_empty() && !kernel.requests.is_empty(), "{workload}");
        let asked = |kind: &str| kernel.requests.iter().find(|(name, _)| *name == kind);
        assert!(asked("getattr").is_some(), "{workload}: whose names change, is asked for again");
    }
}

/// What is written and read again stays in the kernel; a program that makes and removes files, on the other
/// hand, makes the kernel ask for more than it was asked itself.
#[test]
fn the_kernel_s_caches_save_time_where_files_are_written_again() {
    let of = |front| {
        run(&format!("lfs:disk=ssd-sata,size=256M,cache=16M,front-end={front}"), OVERWRITES)
    };
    let [requests, kernel] = ["fuse", "kernel"].map(|front| of(front).unwrap());
    assert!(kernel.span_s < requests.span_s, "{} {}", kernel.span_s, requests.span_s);
}

#[test]
fn a_price_list_changes_the_bill_and_not_the_run() {
    let bill = |prices: &str| {
        let config = format!("lfs:disk=s3-express,size=256M,prices={prices}");
        let figures = run(&config, FILES).unwrap();
        (figures.digest.clone(), figures.disk_use.bill.unwrap())
    };
    let (digest, own) = bill("own");
    let (again, dear) = bill("5/4/3/2/1");
    assert_eq!((digest, own.puts, own.gets), (again, dear.puts, dear.gets));
    assert!(own.puts > 0 && own.work_usd() > 0.0, "{own:?}");
    let gb = 1e9;
    assert!(
        (dear.storage_usd_month - dear.stored_bytes as f64 * 3.0 / gb).abs() < 1e-9,
        "{dear:?}"
    );
    let of_requests = (dear.puts * 5 + dear.gets * 4) as f64 / 1e3;
    assert!((dear.requests_usd - of_requests).abs() < 1e-9, "{dear:?}");
}
