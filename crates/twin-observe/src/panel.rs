//! The observers of a run, and the division of the run into intervals.

use twin_rt::{MILLIS, Nanos, Time};
use twin_sim::Served;
use twin_sim::bus::Span;
use twin_trace::Verb;

use crate::channel::since;
use crate::{Observed, Observer, Observing, Parts, REGISTRY, Row};

/// The most intervals of which figures are kept.
pub(crate) const MOST_INTERVALS: usize = 10_000;

/// Looks at states in an interval: one a second with the interval of the paper.
const LOOKS: Nanos = 900;

/// The least time between two looks in a simulation.
const LEAST_LOOK_NS: Nanos = MILLIS;

/// The observers of a run.
pub struct Panel {
    observers: Vec<(&'static str, Box<dyn Observer>)>,
    every_ns: Nanos,
    look_ns: Nanos,
    parts: Option<Parts>,
    begun: Time,
    /// When the next look is due, and when the interval began; since the beginning.
    next_look: Nanos,
    interval: Nanos,
    intervals: usize,
}

impl Panel {
    /// These observers. They see nothing before [`begin`](Self::begin).
    pub fn new(observing: &Observing) -> Panel {
        Panel::looking(observing, LEAST_LOOK_NS)
    }

    /// These observers, looking at states not more often than this.
    pub(crate) fn looking(observing: &Observing, least_look_ns: Nanos) -> Panel {
        let chosen = REGISTRY.iter().filter(|entry| observing.names.contains(&entry.name));
        let every_ns = observing.every_ns;
        let look_ns = (every_ns / LOOKS).max(least_look_ns).min(every_ns);
        Panel {
            observers: chosen.map(|entry| (entry.name, entry.make())).collect(),
            every_ns,
            look_ns,
            parts: None,
            begun: Time(0),
            next_look: look_ns,
            interval: 0,
            intervals: 0,
        }
    }

    /// The measured part of a run begins.
    pub fn begin(&mut self, now: Time, parts: Parts) {
        self.begun = now;
        self.observers.iter_mut().for_each(|(_, observer)| observer.begin(&parts));
        self.parts = Some(parts);
    }

    /// The time between two looks.
    pub(crate) fn look_ns(&self) -> Nanos {
        self.look_ns
    }

    /// What its observers do not see on a mount, with their names.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.observers.iter().filter_map(|(name, one)| Some((*name, one.unseen()?)))
    }

    /// Takes the figures of the intervals that have ended since they were last taken, of parts that did
    /// something in them.
    pub(crate) fn take_intervals(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, observer) in &mut self.observers {
            for channel in observer.channels() {
                let (what, part, unit) = channel.names();
                let of = |over| Row::of_interval([name, what, &part, unit], over);
                rows.extend(channel.take_intervals().map(of));
            }
        }
        rows.sort_by(|a, b| a.from_s().total_cmp(&b.from_s()));
        rows
    }

    /// Time advances to `next`; what is now was so until then.
    pub fn look(&mut self, next: Time) {
        let Some(parts) = &self.parts else { return };
        let until = since(next, self.begun);
        while self.next_look <= until || self.interval + self.every_ns <= until {
            let ends = self.interval + self.every_ns;
            if self.next_look < ends {
                self.observers.iter_mut().for_each(|(_, observer)| observer.look(parts));
                self.next_look += self.look_ns;
                continue;
            }
            close(&mut self.observers, parts, (self.interval, ends), self.intervals);
            self.intervals += 1;
            self.interval = ends;
            self.next_look = ends + self.look_ns;
        }
    }

    /// An operation has ended.
    pub fn ended(&mut self, verb: Verb, latency_ns: Nanos) {
        if self.parts.is_some() {
            self.observers.iter_mut().for_each(|(_, one)| one.ended(verb, latency_ns));
        }
    }

    /// A disk begins to serve a request.
    pub fn served(&mut self, disk: usize, request: &Served) {
        if self.parts.is_some() {
            self.observers.iter_mut().for_each(|(_, one)| one.served(disk, request));
        }
    }

    /// A bus has been given to a device that waited so long for it.
    pub fn bus_given(&mut self, bus: usize, wait_ns: Nanos, span: Span) {
        if self.parts.is_some() {
            self.observers.iter_mut().for_each(|(_, one)| one.bus_given(bus, wait_ns, span));
        }
    }

    /// Drops what it has of the run, if that failed.
    pub fn leave(&mut self) {
        self.parts = None;
    }

    /// The measured part of the run has ended. What was seen of parts that did something, by
    /// observer; nothing if it never began.
    pub fn end(&mut self, now: Time) -> Vec<Observed> {
        self.look(now);
        let Some(parts) = self.parts.take() else { return Vec::new() };
        let end = since(now, self.begun);
        close(&mut self.observers, &parts, (self.interval, end), self.intervals);
        let mut all = Vec::new();
        for (name, observer) in &mut self.observers {
            let channels = std::mem::take(observer.channels());
            let seen = channels.into_iter().filter(|channel| !channel.is_empty());
            all.extend(seen.map(|channel| channel.observed(name, end)));
        }
        all
    }
}

/// Ends an interval.
fn close(
    observers: &mut [(&'static str, Box<dyn Observer>)],
    parts: &Parts,
    span: (Nanos, Nanos),
    before: usize,
) {
    // The last interval may be of no length.
    let keep = before < MOST_INTERVALS && span.1 > span.0;
    for (_, observer) in observers {
        observer.look(parts);
        observer.channels().iter_mut().for_each(|channel| channel.close(span, keep));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::SECS;

    #[test]
    fn a_run_is_divided_into_intervals_and_a_rest() {
        let observing = Observing::of(["latencies"], Some(10 * SECS)).unwrap();
        let mut panel = Panel::new(&observing);
        let none = Parts { disks: vec![], buses: vec![], volumes: vec![], pools: vec![] };
        panel.ended(Verb::Write, 1);
        panel.begin(Time(SECS), none);
        for second in 1..35 {
            panel.look(Time(second * SECS));
            panel.ended(Verb::Write, second * 1000);
        }
        let seen = panel.end(Time(36 * SECS));
        let writes = seen.iter().find(|one| one.part == Verb::Write.name()).unwrap();
        let spans: Vec<(f64, f64, u64)> =
            writes.every.iter().map(|over| (over.from_s, over.to_s, over.count)).collect();
        assert_eq!(spans, [(0.0, 10.0, 10), (10.0, 20.0, 10), (20.0, 30.0, 10), (30.0, 35.0, 4)]);
        assert_eq!((writes.whole.count, writes.whole.to_s), (34, 35.0));
        assert_eq!(seen.len(), 2, "all operations, and writes");
    }
}
