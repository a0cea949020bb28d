//! Errors at calls: a file system that refuses what its rules name, and passes everything else on.
//!
//! Contract: a refused call has no effect, and no trace in the history: it did not happen. Rules count calls of
//! their kind from when they are made.

use std::cell::RefCell;
use std::future::Future;

use twin_disk::{IoError, IoErrorKind, IoKind};
use twin_fs::quota::Quota;
use twin_fs::{FileSystem, FsError, Ino, LookupEntry, Op, Peeked, Reply, Request, Result, Room};

/// The kinds of calls that can fail, by name.
pub const CALLS: &[&str] = &[
    "create",
    "fallocate",
    "fsync",
    "link",
    "mkdir",
    "open",
    "read",
    "rename",
    "rmdir",
    "setxattr",
    "symlink",
    "truncate",
    "unlink",
    "write",
];

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails.
    Device,
    /// There is no room.
    NoSpace,
}

/// Which calls fail, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    call: &'static str,
    /// The call of this kind that fails, from 1; `None`: every one.
    nth: Option<u64>,
    fault: Fault,
    seen: u64,
}

impl Rule {
    /// The call of this kind with this number, from 1, fails, or with `*` every one.
    ///
    /// # Errors
    /// If there is no such kind, or no such number.
    pub fn new(call: &str, nth: &str, fault: Fault) -> std::result::Result<Rule, String> {
        let known = CALLS.iter().find(|known| **known == call);
        let call = known.ok_or_else(|| format!("{call}: the calls are {}", CALLS.join(", ")))?;
        let nth = match nth {
            "*" => None,
            nth => match nth.parse() {
                Ok(0) | Err(_) => return Err(format!("{nth}: must be a number from 1, or *")),
                Ok(nth) => Some(nth),
            },
        };
        Ok(Rule { call, nth, fault, seen: 0 })
    }
}

/// A file system some of whose calls fail; see the module.
pub struct Failing<F> {
    inner: F,
    rules: RefCell<Vec<Rule>>,
}

impl<F: FileSystem> Failing<F> {
    /// One of which none fails yet.
    pub fn new(inner: F) -> Failing<F> {
        Failing { inner, rules: RefCell::default() }
    }

    /// From now on a call fails by this rule.
    pub fn add(&self, rule: Rule) {
        self.rules.borrow_mut().push(rule);
    }

    /// No call fails any more.
    pub fn heal(&self) {
        self.rules.borrow_mut().clear();
    }

    /// The file system inside.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// Why this call fails, if it does.
    fn fault(&self, op: &Op) -> Option<FsError> {
        let name = call(op)?;
        let mut fault = None;
        for rule in self.rules.borrow_mut().iter_mut().filter(|rule| rule.call == name) {
            rule.seen += 1;
            if rule.nth.is_none_or(|nth| nth == rule.seen) {
                let kind = IoErrorKind::Medium;
                fault.get_or_insert(match rule.fault {
                    Fault::NoSpace => FsError::NoSpace,
                    Fault::Device => {
                        FsError::Io(IoError { op: IoKind::Write, at: 0, len: 0, kind })
                    }
                });
            }
        }
        fault
    }
}

/// The kind of call that an operation is; `None` for those that cannot fail.
fn call(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::Create { .. } | Op::MakeNode { .. } => "create",
        Op::Fallocate { .. } => "fallocate",
        Op::Fsync { .. } | Op::Sync => "fsync",
        Op::Link { .. } => "link",
        Op::MakeDir { .. } => "mkdir",
        Op::Open { truncate: false, .. } => "open",
        Op::Open { truncate: true, .. } => "truncate",
        Op::SetAttr { set, .. } if set.size.is_some() => "truncate",
        Op::Read { .. } => "read",
        Op::Rename { .. } => "rename",
        Op::RemoveDir { .. } => "rmdir",
        Op::SetXattr { .. } => "setxattr",
        Op::Symlink { .. } => "symlink",
        Op::Unlink { .. } => "unlink",
        Op::Write { .. } | Op::Append { .. } | Op::WriteBack { .. } => "write",
        _ => return None,
    })
}

impl<F: FileSystem> FileSystem for Failing<F> {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        let fault = self.fault(&request.op);
        let answer = fault.is_none().then(|| self.inner.execute(request));
        async move {
            match (answer, fault) {
                (Some(answer), _) => answer.await,
                (None, fault) => Err(fault.unwrap_or(FsError::NoSpace)),
            }
        }
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.inner.room_of(ino)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        self.inner.quota_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.inner.peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        self.inner.known(ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does whatever comes.
    struct Willing;

    impl FileSystem for Willing {
        async fn execute(&self, _request: Request) -> Result<Reply> {
            Ok(Reply::Done)
        }
    }

    #[test]
    fn the_call_of_a_rule_fails_and_no_other() {
        let failing = Failing::new(Willing);
        failing.add(Rule::new("fsync", "2", Fault::Device).unwrap());
        let ask = |op: Op| failing.fault(&op).is_some();
        let fsync = || Op::Fsync { ino: 3, data_only: false };
        assert!(!ask(fsync()) && !ask(Op::Unlink { dir: 2, name: (*b"f").into() }));
        assert!(ask(fsync()) && !ask(fsync()));
        failing.add(Rule::new("fsync", "*", Fault::NoSpace).unwrap());
        assert_eq!(failing.fault(&fsync()), Some(FsError::NoSpace));
        failing.heal();
        assert!(!ask(fsync()));
    }

    #[test]
    fn a_rule_that_cannot_be_read_says_why() {
        assert!(Rule::new("fly", "1", Fault::Device).unwrap_err().contains("fsync"));
        assert!(Rule::new("write", "0", Fault::Device).unwrap_err().contains("from 1"));
    }
}
