//! A client of NFS version 3, written from RFC 1813 alone, so that it shares no mistake with the
//! server.
//!
//! Contract: it is a hard client. When the server is away it connects again and sends the call
//! again, with the same number, until the server answers or the time is up.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::clock::{Stopwatch, pause_ms};

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;

/// How long the server may be away.
const PATIENCE: Duration = Duration::from_secs(60);

/// A handle of a file.
pub(crate) type Handle = Vec<u8>;

/// A client.
pub(crate) struct Client {
    /// The port of the server, which changes with restarts if the host picks it.
    port: Arc<AtomicU16>,
    stream: Option<TcpStream>,
    xid: u32,
    /// The number of times that it connected again.
    pub(crate) reconnects: u64,
}

/// The results of a call.
pub(crate) struct Results {
    bytes: Vec<u8>,
    at: usize,
    /// The call was sent more than once.
    pub(crate) repeated: bool,
}

impl Results {
    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        bytes.try_into().map(u32::from_be_bytes).map_err(|_| "four bytes".into())
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    fn take(&mut self, len: usize) -> Result<&[u8], String> {
        let at = self.at;
        self.at += len.next_multiple_of(4);
        self.bytes.get(at..at + len).ok_or_else(|| "the reply is too short".into())
    }

    fn opaque(&mut self) -> Result<Vec<u8>, String> {
        let len = self.u32()? as usize;
        self.take(len).map(<[u8]>::to_vec)
    }

    fn skip_attributes(&mut self) -> Result<(), String> {
        if self.u32()? == 1 { self.take(84).map(drop) } else { Ok(()) }
    }

    fn skip_wcc(&mut self) -> Result<(), String> {
        if self.u32()? == 1 {
            self.take(24)?;
        }
        self.skip_attributes()
    }
}

/// Builds arguments.
#[derive(Default)]
struct Args(Vec<u8>);

impl Args {
    fn u32(mut self, value: u32) -> Args {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn u64(self, value: u64) -> Args {
        self.u32((value >> 32) as u32).u32(value as u32)
    }

    fn opaque(mut self, bytes: &[u8]) -> Args {
        self = self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

impl Client {
    /// A client of the server at the port that is stored there.
    pub(crate) fn new(port: &Arc<AtomicU16>, first_xid: u32) -> Client {
        Client { port: Arc::clone(port), stream: None, xid: first_xid, reconnects: 0 }
    }

    /// The handle of an exported path.
    pub(crate) fn mount(&mut self, path: &str) -> Result<Handle, String> {
        let mut results = self.call((MOUNT, 1), Args::default().opaque(path.as_bytes()))?;
        match results.u32()? {
            0 => results.opaque(),
            status => Err(format!("mounting {path}: status {status}")),
        }
    }

    /// Makes a file, or takes the one that is there.
    pub(crate) fn create(&mut self, dir: &[u8], name: &str) -> Result<Handle, String> {
        let args = Args::default().opaque(dir).opaque(name.as_bytes()).u32(0);
        // Mode 644; no owner, group, size or times.
        let args = args.u32(1).u32(0o644).u32(0).u32(0).u32(0).u32(0).u32(0);
        let mut results = self.call((NFS, 8), args)?;
        match results.u32()? {
            0 if results.u32()? == 1 => results.opaque(),
            status => Err(format!("creating {name}: status {status}")),
        }
    }

    /// Finds a name; `None` if it does not exist.
    pub(crate) fn lookup(&mut self, dir: &[u8], name: &str) -> Result<Option<Handle>, String> {
        let args = Args::default().opaque(dir).opaque(name.as_bytes());
        let mut results = self.call((NFS, 3), args)?;
        match results.u32()? {
            0 => results.opaque().map(Some),
            2 => Ok(None),
            status => Err(format!("looking {name} up: status {status}")),
        }
    }

    /// Removes a name. Returns true if a name was not there because an earlier copy of this very
    /// call had removed it, of which a restarted server knows nothing.
    pub(crate) fn remove(&mut self, dir: &[u8], name: &str) -> Result<bool, String> {
        let args = Args::default().opaque(dir).opaque(name.as_bytes());
        let mut results = self.call((NFS, 12), args)?;
        match results.u32()? {
            0 => Ok(false),
            2 if results.repeated => Ok(true),
            status => Err(format!("removing {name}: status {status}")),
        }
    }

    /// Writes without waiting for durability. Returns the verifier.
    pub(crate) fn write(&mut self, file: &[u8], off: u64, data: &[u8]) -> Result<u64, String> {
        let args = Args::default().opaque(file).u64(off).u32(data.len() as u32).u32(0);
        let mut results = self.call((NFS, 7), args.opaque(data))?;
        match results.u32()? {
            0 => {
                results.skip_wcc()?;
                if results.u32()? as usize != data.len() {
                    return Err("a short write".into());
                }
                results.u32()?;
                results.u64()
            }
            status => Err(format!("writing: status {status}")),
        }
    }

    /// Makes a file durable. Returns the verifier.
    pub(crate) fn commit(&mut self, file: &[u8]) -> Result<u64, String> {
        let mut results = self.call((NFS, 21), Args::default().opaque(file).u64(0).u32(0))?;
        match results.u32()? {
            0 => {
                results.skip_wcc()?;
                results.u64()
            }
            status => Err(format!("committing: status {status}")),
        }
    }

    /// Reads.
    pub(crate) fn read(&mut self, file: &[u8], off: u64, len: u32) -> Result<Vec<u8>, String> {
        let args = Args::default().opaque(file).u64(off).u32(len);
        let mut results = self.call((NFS, 6), args)?;
        match results.u32()? {
            0 => {
                results.skip_attributes()?;
                results.u64()?;
                results.opaque()
            }
            status => Err(format!("reading: status {status}")),
        }
    }

    /// Asks for the attributes of a file.
    pub(crate) fn getattr(&mut self, file: &[u8]) -> Result<(), String> {
        match self.call((NFS, 1), Args::default().opaque(file))?.u32()? {
            0 => Ok(()),
            status => Err(format!("asking for attributes: status {status}")),
        }
    }

    /// The bytes of a READ, for a connection of their own.
    pub(crate) fn read_call(&mut self, file: &[u8], off: u64, len: u32) -> Vec<u8> {
        marked(&self.record((NFS, 6), Args::default().opaque(file).u64(off).u32(len)))
    }

    /// The bytes of a WRITE, likewise.
    pub(crate) fn write_call(&mut self, file: &[u8], off: u64, data: &[u8]) -> Vec<u8> {
        let args = Args::default().opaque(file).u64(off).u32(data.len() as u32).u32(0);
        marked(&self.record((NFS, 7), args.opaque(data)))
    }

    /// Writes the same data `count` times, one behind the other, with `window` calls under way.
    pub(crate) fn write_many(
        &mut self,
        file: &[u8],
        data: &[u8],
        count: usize,
        window: usize,
    ) -> Result<(), String> {
        let args = |n: usize| {
            let args = Args::default().opaque(file).u64((n * data.len()) as u64);
            args.u32(data.len() as u32).u32(0).opaque(data)
        };
        self.many((NFS, 7), count, window, args, |results| {
            results.skip_wcc()?;
            let len = results.u32()? as usize;
            if len == data.len() { Ok(()) } else { Err(format!("a write of {len} bytes")) }
        })
    }

    /// Reads `count` pieces of `len` bytes, one behind the other, with `window` calls under way.
    pub(crate) fn read_many(
        &mut self,
        file: &[u8],
        len: usize,
        count: usize,
        window: usize,
    ) -> Result<(), String> {
        let args = |n: usize| Args::default().opaque(file).u64((n * len) as u64).u32(len as u32);
        self.many((NFS, 6), count, window, args, |results| {
            results.skip_attributes()?;
            let got = results.u32()? as usize;
            if got == len { Ok(()) } else { Err(format!("a read of {got} bytes")) }
        })
    }

    /// Makes many calls with several under way at once, in whatever order they are answered. Such calls
    /// are not sent again.
    fn many(
        &mut self,
        to: (u32, u32),
        count: usize,
        window: usize,
        args: impl Fn(usize) -> Args,
        mut check: impl FnMut(&mut Results) -> Result<(), String>,
    ) -> Result<(), String> {
        let first = self.xid + 1;
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            while sent < count && sent < answered + window {
                let record = self.record(to, args(sent));
                self.send(&record).map_err(|error| format!("sending: {error}"))?;
                sent += 1;
            }
            let bytes = self.receive().map_err(|error| format!("receiving: {error}"))?;
            let xid = bytes.get(..4).and_then(|xid| xid.try_into().ok()).map(u32::from_be_bytes);
            let xid = xid.filter(|xid| (first..=self.xid).contains(xid));
            let mut results = results(bytes, xid.ok_or("a reply to no call")?, false)?;
            match results.u32()? {
                0 => check(&mut results)?,
                status => return Err(format!("one of many calls: status {status}")),
            }
            answered += 1;
        }
        Ok(())
    }

    /// A new call.
    fn record(&mut self, (program, procedure): (u32, u32), args: Args) -> Vec<u8> {
        self.xid += 1;
        // AUTH_SYS: root of a machine without a name.
        let head = Args::default().u32(self.xid).u32(0).u32(2).u32(program).u32(3).u32(procedure);
        let head = head.u32(1).u32(20).u32(0).u32(0).u32(0).u32(0).u32(0).u32(0).u32(0);
        [head.0, args.0].concat()
    }

    /// Sends a call until it is answered.
    fn call(&mut self, to: (u32, u32), args: Args) -> Result<Results, String> {
        let record = self.record(to, args);
        let watch = Stopwatch::start();
        let mut repeated = false;
        loop {
            match self.exchange(&record) {
                Ok(bytes) => return results(bytes, self.xid, repeated),
                Err(error) if watch.elapsed() > PATIENCE => {
                    return Err(format!("no answer within {} s: {error}", PATIENCE.as_secs()));
                }
                Err(_) => {
                    if self.stream.take().is_some() {
                        self.reconnects += 1;
                        repeated = true;
                    }
                    pause_ms(20);
                }
            }
        }
    }

    fn exchange(&mut self, record: &[u8]) -> io::Result<Vec<u8>> {
        self.send(record)?;
        self.receive()
    }

    fn stream(&mut self) -> io::Result<&mut TcpStream> {
        Ok(match &mut self.stream {
            Some(stream) => stream,
            none => {
                let port = self.port.load(Ordering::Relaxed);
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                none.insert(stream)
            }
        })
    }

    fn send(&mut self, record: &[u8]) -> io::Result<()> {
        self.stream()?.write_all(&marked(record))
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let stream = self.stream()?;
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mut reply = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        stream.read_exact(&mut reply)?;
        Ok(reply)
    }
}

/// A record with its mark.
fn marked(record: &[u8]) -> Vec<u8> {
    let mark = (record.len() as u32 | 1 << 31).to_be_bytes();
    [&mark, record].concat()
}

fn results(bytes: Vec<u8>, xid: u32, repeated: bool) -> Result<Results, String> {
    let mut results = Results { bytes, at: 0, repeated };
    let head: Vec<u32> = (0..6).map(|_| results.u32()).collect::<Result<_, _>>()?;
    // A reply, accepted, with an empty verifier, executed.
    if head == [xid, 1, 0, 0, 0, 0] {
        Ok(results)
    } else {
        Err(format!("the reply to call {xid} begins with {head:?}"))
    }
}
