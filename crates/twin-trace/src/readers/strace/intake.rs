//! Lines become operations: each line is of a process and a time, each call of a kind.
//!
//! Contract: a line is used, passed (it is for no file), or left out with a reason, and no call that changes
//! files and is not understood is passed.

use twin_fs::Op;

use super::args::AT_FDCWD;
use super::births::{birth_of, makes_process};
use super::call::Call;
use super::line::Said;
use super::maker::Maker;
use super::table::Cwd;
use super::world::{Step, Stop};
use crate::record::Record;

impl Maker {
    /// Takes the next line of the output of strace.
    pub(super) fn take(&mut self, line: u64, said: &Said) {
        self.line = line;
        match said {
            Said::Note => self.world.reading.pass_one(),
            Said::Half(name) => {
                let why = format!("second halves of calls ({name}) whose first halves are missing");
                self.world.reading.leave_out(line, &why);
            }
            Said::Output { count } => {
                let why = "that are none of strace, and taken as output of the program (strace -o FILE \
                           keeps them apart)";
                let first = line.saturating_sub(*count);
                self.world.reading.leave_out_many(*count, first, why);
            }
            Said::Begun(call) => {
                let pid = self.begin(call.pid, call.at_ns);
                self.begin_sync(call, pid);
                self.end(pid, 0);
                self.world.reading.pass_one();
            }
            Said::Exit { pid, at_ns } => {
                let pid = self.begin(*pid, *at_ns);
                self.exit(pid);
                self.end(pid, 0);
                self.world.reading.pass_one();
            }
            Said::Call(call) => {
                let pid = self.begin(call.pid, call.at_ns);
                let ended_ns = self.ended(call);
                let done = self.call(call, pid);
                self.end(pid, ended_ns);
                self.count(call, done);
            }
        }
    }

    /// Counts calls that had not returned where the text ends.
    pub(super) fn finish(&mut self, halves: u64) {
        let what = "calls had not returned where the text ends and are taken as not made";
        self.world.reading.assume_of(halves, what);
        self.order.finish();
    }

    fn count(&mut self, call: &Call, done: Step<()>) {
        let reading = &mut self.world.reading;
        match done {
            Ok(()) | Err(Stop::Absent) => reading.use_one(),
            Err(Stop::NoFile | Stop::Failed) => reading.pass_one(),
            Err(Stop::Left(why)) => reading.leave_out(self.line, &format!("{} {why}", call.name)),
        }
    }

    /// A line of a process begins: the process is made if it is not known.
    fn begin(&mut self, pid: Option<u32>, at_ns: Option<u64>) -> u32 {
        let pid = pid.or_else(|| self.processes.only()).unwrap_or_else(|| self.births.first());
        self.must_be(pid);
        if let Some(at_ns) = at_ns {
            self.start_ns.get_or_insert(at_ns);
        }
        let at_ns = at_ns.map(|at_ns| at_ns.saturating_sub(self.start_ns.unwrap_or(0)));
        if !self.world.learns {
            self.world.tree.at_ns = self.order.begin(pid, at_ns);
            self.world.tree.client = pid;
        }
        pid
    }

    fn end(&mut self, pid: u32, ended_ns: u64) {
        let records: Vec<Record> = std::iter::from_fn(|| self.world.tree.pop()).collect();
        if !records.is_empty() {
            self.order.add(pid, ended_ns, records);
        }
    }

    fn must_be(&mut self, pid: u32) {
        if self.processes.is_alive(pid) {
            return;
        }
        match self.births.next(pid) {
            Some((parent, shared)) => self.processes.make(pid, Some(parent), shared),
            None => self.processes.make(pid, None, Default::default()),
        }
    }

    /// A call that makes data durable overlaps the following calls, so it is issued at its first
    /// half.
    fn begin_sync(&mut self, call: &Call, pid: u32) {
        let op = match call.name.as_str() {
            "fsync" | "fdatasync" => match self.file(call, pid, 0) {
                Ok((_, file)) => Op::Fsync { ino: file.ino, data_only: call.name == "fdatasync" },
                Err(_) => return,
            },
            "sync" | "syncfs" => Op::Sync,
            _ => return,
        };
        if !self.world.learns {
            let id = self.world.tree.begin(op);
            self.begun.insert(pid, id);
        }
    }

    fn call(&mut self, call: &Call, pid: u32) -> Step<()> {
        if let Some((AT_FDCWD, Some(path))) = call.descriptor(0)
            && path.is_file()
            && !path.is_deleted
        {
            self.processes.set_cwd(pid, Cwd::Path(path.bytes));
        }
        if makes_process(&call.name) {
            let (child, _) = birth_of(call).ok_or(Stop::Failed)?;
            // The call may end after the child has.
            if self.births.is_told(child) {
                self.processes_end(child);
                self.must_be(child);
            }
            return Ok(());
        }
        match self.of_descriptors(call, pid) {
            Some(done) => done,
            None => match self.of_data(call, pid).or_else(|| self.of_names(call, pid)) {
                Some(done) => done,
                None => self.of_others(call, pid),
            },
        }
    }

    /// A process of this number has ended without a word, as it is made again.
    fn processes_end(&mut self, pid: u32) {
        if self.processes.is_alive(pid) {
            self.exit(pid);
        }
    }
}
