//! Events: receiving them does not change a run, and every category has events.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use twin_lab::{Config, EventLog, Figures, Run, Workload, log_categories, simulate};
use twin_rt::Category;
use twin_trace::replay::Pace;

fn run(what: impl Into<Run>, workload: &str) -> Figures {
    simulate(what, &Workload::Generated(workload.into(), 1), Pace::Asap).unwrap()
}

/// The figures of a run, and the lines of its events.
fn told(config: &str, categories: &str, workload: &str) -> (Figures, Vec<String>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let tell = Arc::new(move |line: &str| heard.lock().unwrap().push(line.to_string()));
    let log = Some(EventLog { categories: log_categories(categories).unwrap(), tell });
    let logged = Run { log, ..Run::of(Config::parse(config).unwrap()) };
    let figures = run(logged, workload);
    let lines = lines.lock().unwrap().clone();
    (figures, lines)
}

fn all() -> String {
    Category::ALL.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(",")
}

/// A volume small enough to be cleaned, and to make writers wait.
const SMALL: &str = "lfs:size=80M,cache=4M";
const REWRITTEN: &str = "zipf:writes=40000";

#[test]
fn a_run_that_is_told_of_is_the_same_run() {
    for config in [SMALL, "ffs:size=80M,cache=4M"] {
        let quiet = run(Config::parse(config).unwrap(), REWRITTEN);
        let (figures, lines) = told(config, &all(), REWRITTEN);
        assert_eq!(figures, quiet, "{config}");
        assert!(lines.len() > 100, "{config}: {} lines", lines.len());
    }
}

#[test]
fn lines_have_time_category_name_and_figures_in_the_order_of_time() {
    let (_, lines) = told(SMALL, "flush,checkpoint", REWRITTEN);
    let mut before = 0.0;
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let time: f64 = words[0].parse().unwrap();
        assert!(time >= before, "{line}");
        before = time;
        assert!(["flush", "checkpoint"].contains(&words[1]), "{line}");
        assert!(words[3..].iter().all(|field| field.contains('=')), "{line}");
    }
    assert!(lines.iter().any(|line| line.contains("checkpoint written number=")));
}

#[test]
fn every_category_but_those_of_opening_mounts_and_scrubs_has_something_to_tell() {
    let mut categories = BTreeSet::new();
    for config in [SMALL, "ffs:size=80M,cache=4M"] {
        let (_, lines) = told(config, &all(), REWRITTEN);
        categories.extend(lines.iter().map(|line| line.split(' ').nth(1).unwrap().to_string()));
    }
    for (category, name, _) in Category::ALL {
        let elsewhere = matches!(category, Category::Recovery | Category::Fuse | Category::Scrub);
        assert!(elsewhere || categories.contains(*name), "{name}");
    }
}

#[test]
fn each_operation_of_a_run_has_one_line_that_says_how_long_it_took() {
    let (figures, lines) = told("ffs:size=80M,cache=4M", "operation", REWRITTEN);
    // The settings of a run may let operations come before it is measured; none has no line.
    assert!(lines.len() as u64 >= figures.ops, "{} lines, {} operations", lines.len(), figures.ops);
    let field = |line: &str, name: &str| -> u64 {
        let of = |word: &str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
        line.split(' ').find_map(of).unwrap_or_else(|| panic!("{line}: no {name}"))
    };
    let writes: Vec<&String> =
        lines.iter().filter(|line| line.contains(" operation write ")).collect();
    // The file is filled before its blocks are overwritten.
    assert!(writes.len() >= 40_000, "{} writes", writes.len());
    assert!(writes.iter().all(|line| field(line, "bytes") > 0 && field(line, "ino") > 0));
    assert!(writes.iter().any(|line| field(line, "took_ns") > 0));
    assert!(lines.iter().all(|line| field(line, "failed") == 0));
}
