//! Looks at all workloads within bounds, and at what power failures leave of them; says what it came to.
//!
//! ```sh
//! cargo run --release -p twin-proof --example exhaustive -- --layout lfs --length 2 --minutes 15
//! ```
//!
//! Without `--length` it goes from length one to three. `--most N` takes `N` workloads of a length, evenly among
//! all; `--part K/N` takes every N-th of these from the K-th on, K from 0, so that N runs are the whole; `--seconds N` and `--processor-seconds N` limit it too; `--interrupt-every N` interrupts the recovery of every
//! `N`-th content, not of each; `--set KEY=VALUE`
//! changes the scenario. A violation is printed with the command that repeats it.

// A program with threads, limits and a clock of its own around campaigns that have none.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use twin_ffs::Ffs;
use twin_lfs::Lfs;
use vsfs::Vsfs;

use twin_proof::{Bounds, Counts, Covered, Exhaustive, Failure, Known, Scenario, Subject};

/// Workloads of length three, unless more are wanted.
const OF_THREE: u64 = 100_000;

/// The unit of times in /proc.
const TICKS_PER_S: f64 = 100.0;

/// What is wanted.
#[derive(Clone)]
struct Options {
    layout: String,
    lengths: Vec<u32>,
    most: Option<u64>,
    /// Which of how many parts of the workloads.
    part: (usize, usize),
    limit: Duration,
    /// Of processor time.
    processor_s: f64,
    states: u64,
    threads: usize,
    violations: usize,
    coverage: bool,
    interrupt_every: u64,
    scenario: Scenario,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        layout: "lfs".into(),
        lengths: vec![1, 2, 3],
        most: None,
        part: (0, 1),
        limit: Duration::MAX,
        processor_s: f64::INFINITY,
        states: u64::MAX,
        threads: 2,
        violations: 10,
        coverage: false,
        interrupt_every: 1,
        scenario: Scenario::exhaustive(0),
    };
    while let Some(word) = words.next() {
        if word == "--coverage" {
            options.coverage = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--layout" => options.layout.clone_from(&value),
            "--length" => options.lengths = vec![number()? as u32],
            "--most" => options.most = Some(number()?),
            "--part" => {
                let (part, parts) = value.split_once('/').ok_or("--part K/N")?;
                let number =
                    |text: &str| text.parse().map_err(|error| format!("--part {value}: {error}"));
                options.part = (number(part)?, number(parts)?);
                if options.part.0 >= options.part.1 {
                    return Err(format!("--part {value}: K is less than N"));
                }
            }
            "--minutes" => options.limit = Duration::from_secs(60 * number()?),
            "--seconds" => options.limit = Duration::from_secs(number()?),
            "--processor-seconds" => options.processor_s = number()? as f64,
            "--states" => options.states = number()?,
            "--threads" => options.threads = number()? as usize,
            "--interrupt-every" => options.interrupt_every = number()?.max(1),
            "--violations" => options.violations = number()? as usize,
            "--set" => {
                let (key, value) = value.split_once('=').ok_or("--set KEY=VALUE")?;
                options.scenario.set(key, value)?;
            }
            _ => return Err(format!("{word}: is not understood")),
        }
    }
    Ok(options)
}

/// What a thread has found in the end.
type Part = (Counts, Covered);

/// One thread's part: takes workloads until there are none, or it has to stop.
fn work<L: Subject>(
    options: &Options,
    known: &Known,
    workloads: &Mutex<Receiver<String>>,
    stop: &AtomicBool,
    violations: &Sender<Failure>,
) -> Result<Part, String> {
    let part = Exhaustive::<L>::new(&options.scenario, known)?;
    let mut part = part.interrupt_every(options.interrupt_every);
    loop {
        let next = workloads.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(text) = next else { break };
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let scenario = Scenario { workload: text.clone(), ..options.scenario.clone() };
        let ran = twin_proof::guarded(L::EXHAUSTIVE, &scenario, |_| part.workload(&text));
        if let Err(failure) = ran {
            let _ = violations.send(failure);
        }
        if part.counts().states >= options.states {
            stop.store(true, Ordering::Relaxed);
        }
    }
    Ok((part.counts(), part.covered()))
}

fn run<L: Subject>(options: &Options) -> Result<bool, String> {
    let (known, stop) = (Known::default(), Arc::new(AtomicBool::new(false)));
    let mut covered = Covered::default();
    let mut sum = Counts::default();
    let mut wrong = 0;
    let began = Instant::now();
    for length in &options.lengths {
        let default = if *length < 3 { u64::MAX } else { OF_THREE };
        let bounds = Bounds { length: *length, most: options.most.unwrap_or(default) };
        let (send, receive) = mpsc::sync_channel::<String>(64);
        let receive = Arc::new(Mutex::new(receive));
        let (tell, violations) = mpsc::channel::<Failure>();
        let threads = (0..options.threads).map(|_| {
            let (options, known, stop) = (options.clone(), known.clone(), Arc::clone(&stop));
            let (receive, tell) = (Arc::clone(&receive), tell.clone());
            thread::spawn(move || work::<L>(&options, &known, &receive, &stop, &tell))
        });
        let threads: Vec<_> = threads.collect();
        drop((tell, receive));
        let late =
            || began.elapsed() >= options.limit || processor_seconds() >= options.processor_s;
        let (part, parts) = options.part;
        for text in bounds.workloads().skip(part).step_by(parts) {
            for failure in violations.try_iter() {
                wrong += 1;
                println!("VIOLATION {wrong}: {failure}\n");
            }
            if late() || wrong >= options.violations || send.send(text).is_err() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        drop(send);
        for thread in threads {
            let (counts, inputs) = thread.join().map_err(|_| "a thread panicked")??;
            sum += counts;
            covered.add(&inputs);
        }
        for failure in violations.try_iter() {
            wrong += 1;
            println!("VIOLATION {wrong}: {failure}\n");
        }
        let (all, seconds) = (Bounds::all(*length), began.elapsed().as_secs_f64());
        println!(
            "{}, to length {length} ({all} workloads): {sum}; {wrong} violations; {seconds:.1} s, \
             {:.1} s of processors",
            options.layout,
            processor_seconds()
        );
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if options.coverage {
        show(&covered);
    }
    Ok(wrong == 0)
}

/// Processor time of this process so far; 0 where the host does not say.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which ends with the last parenthesis, come the state and ten more fields.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(2);
    ticks.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

fn show(covered: &Covered) {
    println!("\ninputs covered, with the number of requests:");
    let mut last = "";
    for (op, class, count) in covered.counts() {
        match op == last {
            true => print!(", {class} {count}"),
            false => print!("{}{op}: {class} {count}", if last.is_empty() { "" } else { "\n" }),
        }
        last = op;
    }
    println!("\n\nnever covered:");
    let mut last = "";
    for (op, class) in covered.never() {
        match op == last {
            true => print!(", {class}"),
            false => print!("{}{op}: {class}", if last.is_empty() { "" } else { "\n" }),
        }
        last = op;
    }
    println!();
}

fn main() -> Result<(), String> {
    let options = parse(std::env::args().skip(1))?;
    let held = match options.layout.as_str() {
        "lfs" => run::<Lfs>(&options)?,
        "ffs" => run::<Ffs>(&options)?,
        // Its features are those of the classic profiles.
        "vsfs" => {
            let mut options = options;
            options.scenario.set("profile", "classic")?;
            run::<Vsfs>(&options)?
        }
        other => return Err(format!("{other}: the layouts are lfs, ffs and vsfs")),
    };
    if held { Ok(()) } else { Err("a promise was broken".into()) }
}
