//! How far runs are: a count of the operations that have been taken from a workload, an end after a number of them,
//! and a way to end them early.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use twin_trace::{Ending, Header, Node, Place, Problem, Reading, Record, Source, TraceError};

/// Who hears of progress, from any thread.
#[derive(Clone)]
pub struct Steps {
    count: Arc<dyn Fn(u64) + Send + Sync>,
    stop: Option<Arc<AtomicBool>>,
}

impl Steps {
    /// Steps that `count` hears of.
    pub fn of(count: Arc<dyn Fn(u64) + Send + Sync>) -> Steps {
        Steps { count, stop: None }
    }

    /// The same, where a run ends with an error soon after this flag was set.
    pub fn until(self, stop: Arc<AtomicBool>) -> Steps {
        Steps { stop: Some(stop), ..self }
    }

    fn check(&self) -> Result<(), TraceError> {
        match &self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => {
                let why = io::Error::new(io::ErrorKind::Interrupted, "interrupted");
                Err(TraceError { place: Place::Writing, problem: Problem::Io(why) })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}

/// Operations between two calls.
const BATCH: u64 = 1024;

/// A source that counts its requests.
pub struct Counted {
    source: Box<dyn Source>,
    steps: Option<Steps>,
    untold: u64,
}

impl Counted {
    /// Counts the requests of a source for `steps`, if it is there.
    pub fn new(source: Box<dyn Source>, steps: Option<Steps>) -> Counted {
        Counted { source, steps, untold: 0 }
    }

    fn count(&mut self, record: Option<&Record>) -> Result<(), TraceError> {
        let Some(steps) = &self.steps else { return Ok(()) };
        match record {
            Some(Record::Request { .. }) => self.untold += 1,
            Some(_) => return Ok(()),
            None => {}
        }
        if self.untold >= BATCH || record.is_none() {
            (steps.count)(std::mem::take(&mut self.untold));
            steps.check()?;
        }
        Ok(())
    }
}

impl Source for Counted {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let next = self.source.next_record()?;
        self.count(next.as_ref())?;
        Ok(next)
    }

    fn next_into(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        let more = self.source.next_into(record)?;
        self.count(more.then_some(&*record))?;
        Ok(more)
    }

    fn next_node(&mut self) -> Result<Option<Node>, TraceError> {
        self.source.next_node()
    }

    fn ending(&self) -> Option<Ending> {
        self.source.ending()
    }

    fn has_one_client(&self) -> bool {
        self.source.has_one_client()
    }

    fn reading(&self) -> Reading {
        self.source.reading()
    }
}

/// The beginning of a source: this number of its requests, with the records before the next one.
pub(crate) struct Beginning {
    source: Box<dyn Source>,
    left: u64,
    has_ended: bool,
}

impl Beginning {
    /// The first `requests` of a source.
    pub(crate) fn new(source: Box<dyn Source>, requests: u64) -> Beginning {
        Beginning { source, left: requests, has_ended: false }
    }
}

impl Source for Beginning {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.has_ended {
            return Ok(None);
        }
        let next = self.source.next_record()?;
        let is_beyond = matches!(next, Some(Record::Request { .. })) && self.left == 0;
        if let Some(Record::Request { .. }) = next {
            self.left = self.left.saturating_sub(1);
        }
        self.has_ended = is_beyond || next.is_none();
        Ok(if is_beyond { None } else { next })
    }

    fn has_one_client(&self) -> bool {
        self.source.has_one_client()
    }

    fn reading(&self) -> Reading {
        self.source.reading()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_request_is_counted_once() {
        let source = || twin_generate::start("zipf:writes=3000", 1).unwrap();
        let (mut plain, mut requests) = (source(), 0);
        while let Some(record) = plain.next_record().unwrap() {
            requests += u64::from(matches!(record, Record::Request { .. }));
        }
        let told = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&told);
        let steps = Steps::of(Arc::new(move |more| _ = sum.fetch_add(more, Ordering::Relaxed)));
        let mut counted = Counted::new(source(), Some(steps));
        while counted.next_record().unwrap().is_some() {}
        assert_eq!(told.load(Ordering::Relaxed), requests);
    }

    #[test]
    fn a_run_ends_soon_after_it_was_stopped() {
        let source = twin_generate::start("zipf:writes=30000", 1).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let steps = Steps::of(Arc::new(|_| {})).until(Arc::clone(&stop));
        let mut counted = Counted::new(source, Some(steps));
        assert!(counted.next_record().unwrap().is_some());
        stop.store(true, Ordering::Relaxed);
        let ended = (0..2 * BATCH).find_map(|_| counted.next_record().err());
        assert!(ended.unwrap().to_string().contains("interrupted"));
    }

    #[test]
    fn a_beginning_has_the_first_requests_and_no_more() {
        let source = || twin_generate::start("zipf:writes=300", 1).unwrap();
        let requests = |source: &mut dyn Source| {
            let mut requests = Vec::new();
            while let Some(record) = source.next_record().unwrap() {
                if let Record::Request { request, .. } = record {
                    requests.push(request.id);
                }
            }
            requests
        };
        let all = requests(&mut *source());
        for count in [0, 1, 17, all.len(), all.len() + 5] {
            let found = requests(&mut Beginning::new(source(), count as u64));
            assert_eq!(found, all[..count.min(all.len())]);
        }
    }
}
