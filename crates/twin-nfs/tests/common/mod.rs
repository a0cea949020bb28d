//! A client in a few lines, and a server over the model file system.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::cell::Cell;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Attr, SetAttr};
use twin_model::{ModelFs, Mounted, Settings};
use twin_nfs::rpc::{self, Caller};
use twin_nfs::xdr::{Reader, Writer};
use twin_nfs::{Export, Keys, Limits, Peer, Rules, Served, Server, attrs, lease, proc};
use twin_rt::{ClockOnly, JoinHandle, Rt, Time};

pub(crate) const UUID: [u8; 16] = *b"a volume of test";

/// A machine with a volume that outlives its servers.
pub(crate) struct Machine {
    pub(crate) rt: Rt,
    pub(crate) fs: Rc<Mounted>,
    pub(crate) losses: Rc<Cell<u64>>,
    /// The volume has failed and takes no more changes.
    pub(crate) stopped: Rc<Cell<bool>>,
    boots: Cell<u8>,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let rt = Rt::new(ClockOnly::default(), 1);
        let model = ModelFs::new(Settings::default(), Time::default());
        let fs = Rc::new(Mounted::new(rt.clone(), model));
        Machine { rt, fs, losses: Rc::default(), stopped: Rc::default(), boots: Cell::new(0) }
    }

    /// Starts a server with exports of this volume.
    pub(crate) fn serve(&self, exports: Vec<Export>) -> Client {
        self.boots.set(self.boots.get() + 1);
        let losses = Rc::clone(&self.losses);
        let fs = Rc::clone(&self.fs);
        let served = Served::new(fs, Keys::of(UUID), Limits::default(), move || losses.get());
        let stopped = Rc::clone(&self.stopped);
        let served = served.stopping(move || stopped.get());
        let server = Rc::new(Server::new([self.boots.get(); 16], vec![served], exports));
        let root = Caller::User { uid: 0, gid: 0, groups: Vec::new() };
        Client {
            server,
            rt: self.rt.clone(),
            peer: Peer::LOCAL_ROOT,
            caller: root,
            xid: Rc::new(Cell::new(u32::from(self.boots.get()) << 16)),
        }
    }

    /// Starts a server that exports the root to this machine.
    pub(crate) fn start(&self) -> Client {
        self.serve(vec![export("/", Rules::default())])
    }
}

pub(crate) fn export(path: &str, rules: Rules) -> Export {
    let names = path.split('/').filter(|name| !name.is_empty());
    let below = names.map(|name| name.as_bytes().into()).collect();
    Export { path: path.into(), volume: 0, below, rules }
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) server: Rc<Server>,
    pub(crate) rt: Rt,
    pub(crate) peer: Peer,
    pub(crate) caller: Caller,
    xid: Rc<Cell<u32>>,
}

/// The results of a call, behind the head of the reply.
pub(crate) struct Results(Vec<u8>, usize);

impl Results {
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.0[self.1..])
    }

    /// The status, which all results of NFS begin with.
    pub(crate) fn status(&self) -> u32 {
        self.reader().u32().unwrap()
    }
}

pub(crate) type Handle = Vec<u8>;

/// A name in a listing, and its cookie.
pub(crate) type Named = (Vec<u8>, u64);

impl Client {
    /// The same of a server with leases.
    pub(crate) fn with_leases(self, terms: lease::Terms) -> Client {
        let server = Rc::into_inner(self.server).expect("nobody else calls the server");
        let server = Rc::new(server.with_leases(&self.rt, terms, false));
        Client { server, ..self }
    }

    /// Sends a record without waiting for the reply, which comes with its mark.
    pub(crate) fn begin(&self, record: &[u8]) -> JoinHandle<Option<Vec<u8>>> {
        let (server, peer, record) = (Rc::clone(&self.server), self.peer, Bytes::copy_of(record));
        self.rt.spawn("call", async move { server.answer(peer, record).await })
    }

    pub(crate) fn as_user(&self, uid: u32) -> Client {
        let caller = Caller::User { uid, gid: uid, groups: Vec::new() };
        Client { caller, ..self.clone() }
    }

    pub(crate) fn from(&self, peer: Peer) -> Client {
        Client { peer, ..self.clone() }
    }

    /// The record of a call with a new number.
    pub(crate) fn record(
        &self,
        program: u32,
        procedure: u32,
        args: impl FnOnce(&mut Writer),
    ) -> Vec<u8> {
        self.xid.set(self.xid.get() + 1);
        let version = match program {
            proc::PORTMAP => 2,
            lease::proc::LEASE => lease::proc::VERSION,
            _ => 3,
        };
        let mut out = rpc::call(self.xid.get(), (program, version, procedure), &self.caller);
        args(&mut out);
        out.into_bytes()[4..].to_vec()
    }

    /// Sends a record. The reply comes without its mark.
    pub(crate) fn send(&self, record: &[u8]) -> Option<Vec<u8>> {
        let answer = self.server.answer(self.peer, Bytes::copy_of(record));
        let reply = self.rt.block_on(answer).unwrap()?;
        let mark = u32::from_be_bytes(reply[..4].try_into().unwrap());
        assert_eq!(mark & 0x7fff_ffff, reply.len() as u32 - 4);
        self.rt.block_on(self.rt.sleep(1000)).unwrap();
        Some(reply[4..].to_vec())
    }

    pub(crate) fn results(&self, record: &[u8]) -> Results {
        let reply = self.send(record).expect("a reply");
        let (_, results) = rpc::parse_reply(&reply).unwrap();
        let at = results.expect("an executed call").position();
        Results(reply, at)
    }

    pub(crate) fn call(&self, procedure: u32, args: impl FnOnce(&mut Writer)) -> Results {
        self.results(&self.record(proc::NFS, procedure, args))
    }

    pub(crate) fn mnt(&self, path: &str) -> Result<Handle, u32> {
        let record = self.record(proc::MOUNT, proc::mount::MNT, |w| w.opaque(path.as_bytes()));
        let results = self.results(&record);
        let mut r = results.reader();
        match r.u32().unwrap() {
            0 => Ok(r.opaque(64).unwrap().to_vec()),
            status => Err(status),
        }
    }

    pub(crate) fn getattr(&self, handle: &[u8]) -> Result<Attr, u32> {
        let results = self.call(proc::GETATTR, |w| w.opaque(handle));
        let mut r = results.reader();
        match r.u32().unwrap() {
            0 => Ok(attrs::read_attributes(&mut r).unwrap()),
            status => Err(status),
        }
    }

    pub(crate) fn setattr(&self, handle: &[u8], set: &SetAttr) -> u32 {
        let args = |w: &mut Writer| {
            w.opaque(handle);
            attrs::settings(w, set);
            w.flag(false);
        };
        self.call(proc::SETATTR, args).status()
    }

    pub(crate) fn lookup(&self, dir: &[u8], name: &[u8]) -> Result<Handle, u32> {
        handle_of(&self.call(proc::LOOKUP, |w| place(w, dir, name)), false)
    }

    pub(crate) fn make(
        &self,
        procedure: u32,
        dir: &[u8],
        name: &[u8],
        mode: u32,
    ) -> Result<Handle, u32> {
        let args = |w: &mut Writer| {
            place(w, dir, name);
            if procedure == proc::CREATE {
                w.u32(1);
            }
            attrs::settings(w, &SetAttr { mode: Some(mode), ..SetAttr::default() });
        };
        handle_of(&self.call(procedure, args), true)
    }

    pub(crate) fn create(&self, dir: &[u8], name: &[u8]) -> Result<Handle, u32> {
        self.make(proc::CREATE, dir, name, 0o644)
    }

    pub(crate) fn mkdir(&self, dir: &[u8], name: &[u8]) -> Result<Handle, u32> {
        self.make(proc::MKDIR, dir, name, 0o755)
    }

    pub(crate) fn exclusive(
        &self,
        dir: &[u8],
        name: &[u8],
        verifier: [u8; 8],
    ) -> Result<Handle, u32> {
        let args = |w: &mut Writer| {
            place(w, dir, name);
            w.u32(2);
            w.fixed(&verifier);
        };
        handle_of(&self.call(proc::CREATE, args), true)
    }

    pub(crate) fn remove(&self, dir: &[u8], name: &[u8]) -> u32 {
        self.call(proc::REMOVE, |w| place(w, dir, name)).status()
    }

    pub(crate) fn rename(&self, from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> u32 {
        let args = |w: &mut Writer| {
            place(w, from.0, from.1);
            place(w, to.0, to.1);
        };
        self.call(proc::RENAME, args).status()
    }

    /// Writes, and returns how durable the data is and the verifier.
    pub(crate) fn write(
        &self,
        file: &[u8],
        off: u64,
        data: &[u8],
        stable: u32,
    ) -> Result<(u32, u64), u32> {
        let args = |w: &mut Writer| {
            w.opaque(file);
            w.u64(off);
            w.u32(data.len() as u32);
            w.u32(stable);
            w.opaque(data);
        };
        let results = self.call(proc::WRITE, args);
        let mut r = results.reader();
        let status = r.u32().unwrap();
        attrs::read_wcc(&mut r).unwrap();
        if status != 0 {
            return Err(status);
        }
        assert_eq!(r.u32(), Ok(data.len() as u32));
        let answer = (r.u32().unwrap(), r.u64().unwrap());
        r.end().unwrap();
        Ok(answer)
    }

    /// Commits, and returns the verifier.
    pub(crate) fn commit(&self, file: &[u8]) -> Result<u64, u32> {
        let args = |w: &mut Writer| {
            w.opaque(file);
            w.u64(0);
            w.u32(0);
        };
        let results = self.call(proc::COMMIT, args);
        let mut r = results.reader();
        let status = r.u32().unwrap();
        attrs::read_wcc(&mut r).unwrap();
        if status == 0 { Ok(r.u64().unwrap()) } else { Err(status) }
    }

    /// Reads; the flag says whether the file ends.
    pub(crate) fn read(&self, file: &[u8], off: u64, count: u32) -> Result<(Vec<u8>, bool), u32> {
        let args = |w: &mut Writer| {
            w.opaque(file);
            w.u64(off);
            w.u32(count);
        };
        let results = self.call(proc::READ, args);
        let mut r = results.reader();
        let status = r.u32().unwrap();
        r.optional(attrs::read_attributes).unwrap();
        if status != 0 {
            return Err(status);
        }
        let (len, eof) = (r.u32().unwrap(), r.flag().unwrap());
        let data = r.opaque(usize::MAX).unwrap().to_vec();
        assert_eq!(len as usize, data.len());
        r.end().unwrap();
        Ok((data, eof))
    }

    /// One READDIR or READDIRPLUS: names with cookies, and whether the directory ends.
    pub(crate) fn list(
        &self,
        dir: &[u8],
        cookie: u64,
        count: u32,
        plus: bool,
    ) -> Result<(Vec<Named>, bool), u32> {
        let args = |w: &mut Writer| {
            w.opaque(dir);
            w.u64(cookie);
            w.u64(0);
            if plus {
                w.u32(count);
            }
            w.u32(count);
        };
        let procedure = if plus { proc::READDIRPLUS } else { proc::READDIR };
        let results = self.call(procedure, args);
        let mut r = results.reader();
        let status = r.u32().unwrap();
        r.optional(attrs::read_attributes).unwrap();
        if status != 0 {
            return Err(status);
        }
        r.u64().unwrap();
        let mut entries = Vec::new();
        while r.flag().unwrap() {
            r.u64().unwrap();
            entries.push((r.opaque(255).unwrap().to_vec(), r.u64().unwrap()));
            if plus {
                r.optional(attrs::read_attributes).unwrap();
                r.optional(|r| r.opaque(64).map(drop)).unwrap();
            }
        }
        let eof = r.flag().unwrap();
        assert!(r.position() as u32 <= count, "{} of {count} bytes", r.position());
        r.end().unwrap();
        Ok((entries, eof))
    }

    /// All names of a directory, in steps of `count` bytes.
    pub(crate) fn names(&self, dir: &[u8], count: u32, plus: bool) -> Vec<Vec<u8>> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let (entries, eof) = self.list(dir, cookie, count, plus).unwrap();
            cookie = entries.last().map_or(cookie, |last| last.1);
            names.extend(entries.into_iter().map(|entry| entry.0));
            if eof {
                return names;
            }
        }
    }
}

pub(crate) fn place(w: &mut Writer, dir: &[u8], name: &[u8]) {
    w.opaque(dir);
    w.opaque(name);
}

fn handle_of(results: &Results, optional: bool) -> Result<Handle, u32> {
    let mut r = results.reader();
    match r.u32().unwrap() {
        0 => {
            assert!(!optional || r.flag().unwrap());
            Ok(r.opaque(64).unwrap().to_vec())
        }
        status => Err(status),
    }
}
