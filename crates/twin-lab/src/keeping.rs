//! Traces that are read once for any number of runs.
//!
//! Contract: what is kept has the records of the workload that was read, one for one, and the files that exist
//! before it, which runs then need not collect. A trace in a foreign format is parsed once: runs decode its
//! records from columns that they share ([`Writer::plain`]), seven to ten bytes each, [`MOST_BYTES`] in all,
//! where decoded ones would take 176 and their names. What is larger, or has a record that the columns would
//! change, is read again by each run. So are traces of our own, of whose reading columns would save a quarter
//! in each run and cost three quarters once.

use std::sync::Arc;

use twin_rt::Nanos;
use twin_trace::replay::Population;
use twin_trace::{Ending, Header, Reading, Record, Source, TraceError, Writer};

/// The most bytes of a trace that is kept: as much as a run of a short trace takes itself, and enough for four
/// million operations. It is twice that for a moment, when the trace has ended.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// A source that keeps for runs what is read from it.
pub struct Keeping {
    source: Box<dyn Source>,
    /// `None` if records are not kept.
    columns: Option<Writer<Vec<u8>>>,
    most_bytes: u64,
    /// `None` after a node that is not where the header says.
    population: Option<Population>,
    /// The time of the last record, and the number of the last request.
    last: (Nanos, u64),
}

impl Keeping {
    /// Keeps the files before a workload, from its beginning on, and its records if they take this many bytes
    /// at most.
    pub(crate) fn at_most(source: Box<dyn Source>, most_bytes: u64) -> Keeping {
        let columns = Writer::plain(Vec::new(), source.header()).ok().filter(|_| most_bytes > 0);
        let population = Some(Population::default());
        Keeping { source, columns, most_bytes, population, last: (0, 0) }
    }

    /// What was kept when the source has ended: the trace in columns, and the files before it.
    pub(crate) fn end(self) -> (Option<Arc<[u8]>>, Option<Arc<Population>>) {
        let columns = self.columns.and_then(|columns| columns.finish().ok());
        let columns = columns.filter(|columns| columns.len() as u64 <= self.most_bytes);
        (columns.map(Arc::from), self.population.map(Arc::new))
    }

    fn keep(&mut self, record: &Record) {
        let traits = self.source.header().traits;
        let (last_ns, last) = self.last;
        // Columns number requests in order and have no time that goes back.
        let (at_ns, is_in_order) = match record {
            Record::Node(_) if traits.nodes_first && last > 0 => {
                self.population = None;
                (last_ns, false)
            }
            Record::Node(_) => (last_ns, true),
            Record::Request { at_ns, request } => (*at_ns, request.id == last + 1),
            Record::Reply { at_ns, id, .. } => (*at_ns, (1..=last).contains(id)),
        };
        self.last = (at_ns, last + u64::from(matches!(record, Record::Request { .. })));
        if let Some(population) = &mut self.population {
            population.note(record, traits.mounted);
        }
        let most_bytes = self.most_bytes;
        let goes_on = |columns: &mut Writer<Vec<u8>>| {
            is_in_order
                && at_ns >= last_ns
                && columns.record(record).is_ok()
                && columns.written_bytes() <= most_bytes
        };
        if self.columns.as_mut().is_some_and(|columns| !goes_on(columns)) {
            self.columns = None;
        }
    }
}

impl Source for Keeping {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let next = self.source.next_record()?;
        if let Some(record) = &next {
            self.keep(record);
        }
        Ok(next)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    const STRACE: &str = "\
        10 1700000000.000001 openat(AT_FDCWD, \"a\", O_RDWR|O_CREAT, 0644) = 3 <0.000010>\n\
        10 1700000000.000100 pwrite64(3, \"x\"..., 4096, 0) = 4096 <0.000010>\n\
        11 1700000000.000150 openat(AT_FDCWD, \"b\", O_RDONLY) = 3 <0.000010>\n\
        11 1700000000.000200 read(3, \"x\"..., 8192) = 8192 <0.000010>\n\
        10 1700000000.000300 rename(\"a\", \"c\") = 0 <0.000010>\n";

    fn shipped() -> Workload {
        Workload::Trace(Arc::from(&include_bytes!("../../../traces/server.tw")[..]))
    }

    fn strace() -> Workload {
        Workload::Foreign("strace", Arc::from(STRACE.as_bytes()))
    }

    fn records(source: &mut dyn Source) -> Vec<Record> {
        std::iter::from_fn(|| source.next_record().unwrap()).collect()
    }

    fn kept(workload: &Workload, most_bytes: u64) -> Workload {
        let mut keeping = Keeping::at_most(workload.start().unwrap(), most_bytes);
        while keeping.next_record().unwrap().is_some() {}
        workload.clone().kept(keeping)
    }

    #[test]
    fn what_is_kept_is_the_workload_record_for_record() {
        let generated = |text: &str| Workload::Generated(text.into(), 1);
        let build = generated("build:files=20");
        for workload in [shipped(), strace(), generated("mail:messages=100"), build] {
            for most_bytes in [0, MOST_BYTES] {
                let kept = kept(&workload, most_bytes);
                let (mut plain, mut shared) = (workload.start().unwrap(), kept.start().unwrap());
                assert_eq!(plain.header(), shared.header());
                assert!(records(&mut *plain) == records(&mut *shared));
                let (collected, found) = (workload.population(), kept.population());
                assert_eq!(format!("{:?}", collected.unwrap()), format!("{:?}", found.unwrap()));
            }
        }
    }

    #[test]
    fn only_what_fits_is_in_columns() {
        let is_in_columns = |most_bytes| match kept(&strace(), most_bytes) {
            Workload::Read(workload, _) => matches!(*workload, Workload::Trace(_)),
            _ => false,
        };
        assert_eq!([0, 100, 1 << 20].map(is_in_columns), [false, false, true]);
    }

    /// Requests with other numbers, or earlier times, than those of a trace of our own.
    struct Odd(Header, Vec<Record>);

    impl Source for Odd {
        fn header(&self) -> &Header {
            &self.0
        }

        fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
            Ok(self.1.pop())
        }
    }

    #[test]
    fn what_columns_would_change_is_not_in_them() {
        let sync = |id, at_ns| {
            let request = twin_fs::Request::root(id, twin_fs::Op::Sync);
            Record::Request { at_ns, request }
        };
        let header = strace().start().unwrap().header().clone();
        let is_in_columns = |mut records: Vec<Record>| {
            records.reverse();
            let odd = Box::new(Odd(header.clone(), records));
            let mut keeping = Keeping::at_most(odd, MOST_BYTES);
            while keeping.next_record().unwrap().is_some() {}
            keeping.columns.is_some()
        };
        assert!(is_in_columns(vec![sync(1, 5), sync(2, 5)]));
        assert!(!is_in_columns(vec![sync(1, 5), sync(3, 5)]));
        assert!(!is_in_columns(vec![sync(1, 5), sync(2, 4)]));
    }
}
