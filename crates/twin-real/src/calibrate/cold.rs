//! Cold starts of the daemon: what its requests take longer after a while without any of their kind.
//!
//! Contract: on a mount a file is made, written and looked at, again and again, after pauses of several lengths and
//! without one; the recording has the service time of each request, and how long ago the last one of its kind came.
//! What a kind takes longer after a pause than without one, medians of both, is the cold start. During a pause the
//! client computes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use twin_fs::Op;
use twin_host::real_clock;
use twin_lab::ColdStart;
use twin_trace::{Reader, Record, Source, Verb};

use super::bench::{Bench, SMALL};
use super::rounds::kept;
use crate::runner::median;

/// Pauses in microseconds; the first are those with which the others are compared.
const PAUSES: [u64; 5] = [0, 300, 1000, 5000, 20_000];
/// Files that are made after each pause, a round.
const FILES: [usize; 5] = [40, 16, 16, 12, 8];
/// Kinds of requests that are told apart.
const KINDS: [&str; 4] = ["lookup", "create", "write", "attr"];

/// Service times by kind and pause, by round.
#[derive(Default)]
pub(super) struct Samples(Vec<Times>);

type Times = BTreeMap<(&'static str, u64), Vec<f64>>;

impl Samples {
    /// Forgets the rounds that do not stay.
    pub(super) fn keep(&mut self, stays: &[bool]) {
        self.0 = kept(std::mem::take(&mut self.0), stays);
    }

    /// Measures all once, on a volume in `image`, whose contents are lost.
    ///
    /// # Errors
    /// If the volume cannot be made, mounted or used.
    pub(super) fn round(&mut self, bench: &Bench<'_>, image: &Path) -> Result<(), String> {
        let work = |mnt: &Path| call(mnt).map_err(|e| format!("{}: {e}", mnt.display()));
        let trace = bench.recorded(image, work)?;
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", trace.display());
        let bytes = fs::read(&trace).map_err(|e| said(&e))?;
        let mut reader = Reader::new(&bytes[..]).map_err(|e| said(&e))?;
        self.0.push(times(&mut reader).map_err(|e| said(&e))?);
        fs::remove_file(&trace).map_err(|e| said(&e))
    }

    /// What each kind takes longer after each pause.
    pub(super) fn starts(self) -> Vec<ColdStart> {
        let of = |kind, pause| {
            let rounds = self.0.iter().filter_map(|times| times.get(&(kind, pause)));
            median(rounds.flatten().copied().collect())
        };
        let longer = |kind, pause| match (of(kind, 0), of(kind, pause)) {
            (warm, cold) if warm > 0.0 => ((cold - warm).max(0.0) * 10.0).round() / 10.0,
            _ => 0.0,
        };
        if self.0.is_empty() {
            return Vec::new();
        }
        let start = |&pause: &u64| {
            let [lookup_us, create_us, write_us, attr_us] = KINDS.map(|kind| longer(kind, pause));
            ColdStart { idle_us: pause as f64, lookup_us, create_us, write_us, attr_us }
        };
        PAUSES[1..].iter().map(start).collect()
    }
}

fn call(mnt: &Path) -> io::Result<()> {
    let clock = real_clock();
    let content = [0x5a; SMALL];
    for (pause, files) in PAUSES.into_iter().zip(FILES) {
        for i in 0..files {
            let start = clock();
            while clock() - start < pause as f64 / 1e6 {
                std::hint::spin_loop();
            }
            let path = mnt.join(format!("cold-{pause}-{i}"));
            File::create(&path)?.write_all(&content)?;
            let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
            rustix::fs::statx(File::open(&path)?.as_fd(), "", flags, StatxFlags::BASIC_STATS)?;
        }
    }
    Ok(())
}

/// Service times in microseconds, by kind and the pause before: the time since the last request of the kind.
fn times(source: &mut dyn Source) -> Result<Times, twin_trace::TraceError> {
    let (mut begun, mut last) = (BTreeMap::new(), BTreeMap::new());
    let mut times = Times::new();
    while let Some(record) = source.next_record()? {
        match record {
            Record::Request { at_ns, request } => {
                let Some(kind) = kind(&request.op) else { continue };
                let idle = last.get(kind).map(|&at: &u64| at_ns.saturating_sub(at) / 1000);
                if let Some(pause) = idle.and_then(pause_of) {
                    begun.insert(request.id, (kind, pause, at_ns));
                }
                last.insert(kind, at_ns);
            }
            Record::Reply { at_ns, id, .. } => {
                let Some((kind, pause, from)) = begun.remove(&id) else { continue };
                last.insert(kind, at_ns);
                let us = at_ns.saturating_sub(from) as f64 / 1e3;
                times.entry((kind, pause)).or_default().push(us);
            }
            Record::Node(_) => {}
        }
    }
    Ok(times)
}

/// The pause that was meant by this time without a request of the kind, in microseconds; `None` between two of them.
fn pause_of(us: u64) -> Option<u64> {
    let meant = PAUSES.into_iter().rev().find(|pause| us >= *pause)?;
    (us < (meant * 2).max(150)).then_some(meant)
}

fn kind(op: &Op) -> Option<&'static str> {
    let [lookup, create, write, attr] = KINDS;
    match Verb::of(op) {
        Verb::Lookup => Some(lookup),
        Verb::Create | Verb::MakeNode => Some(create),
        Verb::Write => Some(write),
        Verb::GetAttr => Some(attr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_the_one_that_was_meant() {
        assert_eq!(
            [0, 149, 200, 310, 599, 700].map(pause_of),
            [Some(0), Some(0), None, Some(300), Some(300), None]
        );
        assert_eq!(
            [1900, 2100, 5100, 20_500, 50_000].map(pause_of),
            [Some(1000), None, Some(5000), Some(20_000), None]
        );
    }

    #[test]
    fn a_cold_start_is_what_a_kind_takes_longer_than_without_a_pause() {
        let round = |warm: f64, cold: f64| -> Times {
            [(("create", 0), vec![warm; 9]), (("create", 1000), vec![cold; 3])].into()
        };
        let samples = Samples(vec![round(5.0, 14.0), round(5.2, 90.0), round(5.1, 15.0)]);
        let starts = samples.starts();
        let after = |us: f64| starts.iter().find(|start| start.idle_us == us).unwrap();
        assert!((after(1000.0).create_us - 9.9).abs() < 1e-9, "{starts:?}");
        assert_eq!((after(300.0).create_us, after(1000.0).write_us), (0.0, 0.0), "not measured");
        assert!(Samples::default().starts().is_empty());
    }
}
