//! `twinfs bench --peers`: our layouts, mounted, beside other file systems on one loop device.
//!
//! Contract: all systems take turns on one device with direct I/O over one fully written file, each
//! run on a file system made for it. Whatever ends the program but SIGKILL unmounts, detaches and
//! removes what was set up. Nothing is set up before it is known that all of it can be.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use twin_bench::{self as bench, Target, ratios, verdicts};
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer, usage};
use twin_host::{IdlePoll, Interrupts, absolute, real_clock};
use twin_real::choose;
use twin_real::peers::{BareDevice, Peer, Turns};

use crate::cli::Bench;
use crate::measuring::runner;
use crate::size::Size;

/// What runs unless told otherwise: some minutes a round.
const DEFAULT: &[&str] = &[
    "small:files=5000",
    "small:files=5000,kernel=yes",
    "small:files=1500,size=4K,fsync=yes,warm=yes",
    "small:files=1500,users=4,warm=yes",
    "large:mb=256",
    "tpcb:transactions=1500",
    "tpcb:transactions=6000,group=10",
    "meta:names=4000",
];

/// How verdicts are to be read.
const PAIRS: &str = "A pair is the runs of both in one round. Ahead and behind are said from five pairs on (--runs), where as many \
                     or more would agree by chance in one of twenty comparisons; the two figures are the quartiles of the ratios.";

/// What ours do and others do not.
const IDLE_POLLING: &str = "Waking an idle processor of this virtual machine takes long. While our mounts are busy they have idle processors \
                            poll (mount --idle-poll); other systems do not ask for it. docs/speed.md says how all have it.";

pub(super) fn run(args: &Bench, interrupts: &Interrupts) -> Outcome {
    let texts: Vec<&str> = match &args.benches[..] {
        [] => DEFAULT.to_vec(),
        texts => texts.iter().map(String::as_str).collect(),
    };
    let mut benches = Vec::new();
    for text in texts {
        benches.extend(bench::parse(text).map_err(usage)?);
    }
    let (systems, missing) = choose(&args.only).map_err(usage)?;
    if !rustix::process::geteuid().is_root() {
        return Err("--peers makes loop devices and mounts file systems: run it as root".into());
    }
    let base = match &args.at {
        Some(dir) => absolute(dir)?,
        None => PathBuf::from("/var/tmp"),
    };
    let bytes = benches.iter().map(|b| b.bytes()).max().unwrap_or(0);
    if args.size.0 < 4 * bytes {
        let size = Size(4 * bytes);
        return Err(usage(format!("the benchmarks need a device of {size} at least: give --size")));
    }
    for (name, tool) in &missing {
        twin_host::note!("twinfs: without {name}: {tool} is not installed");
    }
    let mut printer = Printer::of(&args.output, interrupts)?;
    let turns = Turns::make(&runner(interrupts)?, &base, args.size.0)?;
    let mut targets: Vec<Target> = Vec::new();
    let mut tried = Vec::new();
    for system in systems {
        let peer = Arc::new(Peer::new(system, &turns));
        tried.push(Arc::clone(&peer));
        targets.push(Target::Place(peer));
    }
    targets.push(Target::Place(Arc::new(BareDevice::new(&turns))));
    let bar = Progress::of("benchmarks", 1);
    let progress = |_: &[bench::Row], ended: usize, all: usize| bar.set(ended as u64, all as u64);
    let result =
        bench::run(&benches, &targets, args.runs.map_or(1, usize::from), &real_clock(), &progress);
    bar.finish();
    let rows = result.map_err(|e| e.to_string())?;
    let names: Vec<String> = targets.iter().map(Target::name).collect();
    let mut report = bench::report(&rows, &names, &[]);
    report.add(ratios(&rows, &names, 0));
    let lines = verdicts(&rows, &names, 0);
    report.add(format!("{}\n{PAIRS}", lines.join("\n")));
    if IdlePoll::Auto.is_wanted() {
        report.add(IDLE_POLLING);
    }
    printer.print(&report)?;
    for peer in &tried {
        for failure in peer.failures() {
            twin_host::note!("twinfs: {failure}");
        }
    }
    Ok(ExitCode::SUCCESS)
}
