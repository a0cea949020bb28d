//! A process that serves one volume, and the connection to it.
//!
//! Contract: a line to the socket has one line as its answer. The process ends with its standard input, so that a test
//! that is killed leaves nothing mounted.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;

use crate::{Error, Result};

const GREETING: &str = "twinfs-crashlab-session 1";

#[derive(Debug)]
pub(crate) struct Session {
    socket: RefCell<BufReader<UnixStream>>,
    pub(crate) volume: PathBuf,
    pub(crate) acks: PathBuf,
    /// The last field, because the lab ends when nobody can send it anything any more.
    _lab: Lab,
}

/// The lab's process. It unmounts and ends when its input ends, and is waited for.
#[derive(Debug)]
struct Lab {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

fn gone(error: impl std::fmt::Display) -> Error {
    Error::Lab(format!("the lab has gone: {error}"))
}

impl Session {
    pub(crate) fn begin(program: &OsStr, options: &[&str]) -> Result<Session> {
        let mut child = Command::new(program)
            .args(["crashlab", "--session"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::Lab(format!("{}: {error}", program.display())))?;
        let stdin = child.stdin.take();
        let mut lab = Lab { child, stdin };
        let mut lines = lab.child.stdout.take().map(|out| BufReader::new(out).lines());
        let mut next = || lines.as_mut().and_then(Iterator::next).and_then(|line| line.ok());
        if next().as_deref() != Some(GREETING) {
            let mut why = String::new();
            lab.stdin = None;
            let _ = lab.child.stderr.take().map(|mut err| err.read_to_string(&mut why));
            return Err(Error::Lab(why.trim().trim_start_matches("twinfs: ").into()));
        }
        let mut named = |name: &str| {
            let line = next().unwrap_or_default();
            let path = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            path.map(PathBuf::from)
                .ok_or_else(|| Error::Lab(format!("the lab says {line:?} for {name}")))
        };
        let (volume, socket, acks) = (named("volume")?, named("socket")?, named("acks")?);
        let socket = RefCell::new(BufReader::new(UnixStream::connect(socket).map_err(gone)?));
        Ok(Session { socket, volume, acks, _lab: lab })
    }

    /// Sends a line and returns the answer.
    pub(crate) fn ask(&self, line: &str) -> Result<String> {
        if line.contains('\n') {
            return Err(Error::Lab(format!("{line:?}: must be one line")));
        }
        let mut socket = self.socket.borrow_mut();
        socket.get_mut().write_all(format!("{line}\n").as_bytes()).map_err(gone)?;
        let mut answer = String::new();
        if socket.read_line(&mut answer).map_err(gone)? == 0 {
            return Err(gone("it has closed the connection"));
        }
        let answer = answer.trim_end_matches('\n');
        match answer.strip_prefix("error ") {
            Some(why) => Err(Error::Lab(why.into())),
            None => Ok(answer.into()),
        }
    }

    /// Sends a line whose answer says nothing.
    pub(crate) fn tell(&self, line: &str) -> Result<()> {
        self.ask(line).map(drop)
    }

    pub(crate) fn report(&self) -> Result<Value> {
        let answer = self.ask("report")?;
        let count = answer.strip_prefix("report ").and_then(|count| count.parse().ok());
        let count: usize =
            count.ok_or_else(|| Error::Lab(format!("the lab answers {answer:?}")))?;
        let mut bytes = vec![0; count];
        self.socket.borrow_mut().read_exact(&mut bytes).map_err(gone)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Lab(format!("its report: {error}")))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.socket.get_mut().get_mut().shutdown(std::net::Shutdown::Both);
    }
}
