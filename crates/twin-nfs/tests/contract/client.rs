//! A client that knows what it may rely on.
//!
//! Contract: one call at a time. What the client believes outlives the server; a call that was
//! under way when the server ended is sent again, with the same number, to the next one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_fs::SetAttr;
use twin_nfs::xdr::{Reader, Writer};
use twin_nfs::{Status, attrs, proc, rpc};
use twin_rt::Rng;

use super::run::{Net, head};

pub(crate) type Verdict<T> = Result<T, String>;

/// Bytes of a piece that is written at once.
const PIECE: u64 = 512;
const PIECES: u64 = 6;
const NAMES: u64 = 5;
const EXISTS: u32 = Status::Exists as u32;
const NO_ENTRY: u32 = Status::NoEntry as u32;
const STALE: u32 = Status::Stale as u32;

/// A piece of a file. Contents are numbers: 0 is a hole.
#[derive(Clone, Debug, Default)]
struct Piece {
    /// The content that is certainly durable.
    stable: u64,
    /// What was sent after it, in order.
    later: Vec<u64>,
}

#[derive(Clone, Debug)]
struct File {
    handle: Vec<u8>,
    pieces: Vec<Piece>,
    /// Writes that are not committed: piece, content, verifier.
    uncommitted: Vec<(u64, u64, u64)>,
}

#[derive(Clone, Debug)]
enum Act {
    MakeDir,
    Create(String),
    Exclusive(String),
    /// The same again, as a call of its own, with the verifier of the first.
    ExclusiveAgain(String, [u8; 8]),
    Write(String, u64, u64, u32),
    Commit(String),
    Remove(String),
    Rename(String, String),
    Read(String, u64),
    Dead(usize),
    Look(String),
}

fn procedure(act: &Act) -> u32 {
    match act {
        Act::MakeDir => proc::MKDIR,
        Act::Create(_) | Act::Exclusive(_) | Act::ExclusiveAgain(..) => proc::CREATE,
        Act::Write(..) => proc::WRITE,
        Act::Commit(_) => proc::COMMIT,
        Act::Remove(_) => proc::REMOVE,
        Act::Rename(..) => proc::RENAME,
        Act::Read(..) => proc::READ,
        Act::Dead(_) => proc::GETATTR,
        Act::Look(_) => proc::LOOKUP,
    }
}

pub(crate) struct Client {
    number: u64,
    rng: Rng,
    xid: u32,
    dir: Option<Vec<u8>>,
    files: BTreeMap<String, File>,
    dead: Vec<Vec<u8>>,
    contents: u64,
    /// The verifiers of files that were made with one and not written since.
    verifiers: BTreeMap<String, [u8; 8]>,
    /// Data that must be written again.
    again: Vec<(String, u64, u64)>,
    pending: Option<(Vec<u8>, Act)>,
    pub(crate) rewrites: u64,
}

fn root_of(net_reply: &[u8]) -> Verdict<Vec<u8>> {
    let mut r = results(net_reply)?;
    match r.u32() {
        Ok(0) => r.opaque(64).map(<[u8]>::to_vec).map_err(|_| "no handle".into()),
        status => Err(format!("mounting: {status:?}")),
    }
}

fn results(reply: &[u8]) -> Verdict<Reader<'_>> {
    let (_, results) = rpc::parse_reply(reply).map_err(|_| "not a reply")?;
    results.ok_or_else(|| "a call was refused".into())
}

fn bytes(content: u64) -> Vec<u8> {
    content.to_le_bytes().repeat(PIECE as usize / 8)
}

impl Client {
    pub(crate) fn new(number: u64, seed: u64) -> Client {
        Client {
            number,
            rng: Rng::stream(seed, &format!("client {number}")),
            // All clients use the same numbers, as clients do.
            xid: 0,
            dir: None,
            files: BTreeMap::new(),
            dead: Vec::new(),
            contents: number << 32,
            verifiers: BTreeMap::new(),
            again: Vec::new(),
            pending: None,
            rewrites: 0,
        }
    }

    /// Works until the run ends.
    pub(crate) async fn work(this: &Rc<RefCell<Client>>, net: &Rc<Net>) -> Verdict<()> {
        let pending = this.borrow().pending.clone();
        if let Some((record, act)) = pending {
            let reply = net.exchange(&record, false).await;
            let what = format!("client {}: {act:?}, sent again", this.borrow().number);
            let lookup =
                this.borrow_mut().learn(&act, &reply, true).map_err(|e| format!("{what}: {e}"))?;
            Client::adopt(this, net, lookup).await?;
            this.borrow_mut().pending = None;
        }
        loop {
            let Some(act) = this.borrow_mut().choose() else { continue };
            let record = Client::record(this, net, &act).await?;
            this.borrow_mut().pending = Some((record.clone(), act.clone()));
            let reply = net.exchange(&record, false).await;
            let what = format!("client {}: {act:?}", this.borrow().number);
            this.borrow_mut().learn(&act, &reply, false).map_err(|e| format!("{what}: {e}"))?;
            this.borrow_mut().pending = None;
        }
    }

    /// Finds the handle of a file that an earlier copy of a call made.
    async fn adopt(this: &Rc<RefCell<Client>>, net: &Rc<Net>, name: Option<String>) -> Verdict<()> {
        let Some(name) = name else { return Ok(()) };
        let dir = this.borrow().dir.clone();
        let dir = match (dir, name.is_empty()) {
            (Some(dir), false) => dir,
            _ => Client::root(this, net, false).await?,
        };
        let own = format!("c{}", this.borrow().number);
        let looked = if name.is_empty() { &own } else { &name };
        let handle = Client::look(this, net, &dir, looked, false).await?;
        let handle = handle.ok_or_else(|| format!("{looked} exists and is not found"))?;
        let mut client = this.borrow_mut();
        if name.is_empty() {
            client.dir = Some(handle);
        } else {
            client.add(name, handle);
        }
        Ok(())
    }

    fn add(&mut self, name: String, handle: Vec<u8>) {
        let pieces = vec![Piece::default(); PIECES as usize];
        self.files.insert(name, File { handle, pieces, uncommitted: Vec::new() });
    }

    fn next_xid(&mut self) -> u32 {
        self.xid += 1;
        self.xid
    }

    async fn root(this: &Rc<RefCell<Client>>, net: &Rc<Net>, calm: bool) -> Verdict<Vec<u8>> {
        let xid = this.borrow_mut().next_xid();
        let mut out = head(xid, proc::MOUNT, proc::mount::MNT);
        out.opaque(b"/");
        root_of(&net.exchange(&out.into_bytes()[4..], calm).await)
    }

    async fn look(
        this: &Rc<RefCell<Client>>,
        net: &Rc<Net>,
        dir: &[u8],
        name: &str,
        calm: bool,
    ) -> Verdict<Option<Vec<u8>>> {
        let xid = this.borrow_mut().next_xid();
        let mut out = head(xid, proc::NFS, proc::LOOKUP);
        out.opaque(dir);
        out.opaque(name.as_bytes());
        let reply = net.exchange(&out.into_bytes()[4..], calm).await;
        let mut r = results(&reply)?;
        match r.u32() {
            Ok(0) => Ok(r.opaque(64).ok().map(<[u8]>::to_vec)),
            Ok(NO_ENTRY) => Ok(None),
            status => Err(format!("looking {name} up: {status:?}")),
        }
    }

    fn choose(&mut self) -> Option<Act> {
        if self.dir.is_none() {
            return Some(Act::MakeDir);
        }
        if let Some((name, piece, content)) = self.again.pop() {
            self.rewrites += 1;
            let how = self.rng.below(3) as u32;
            return Some(Act::Write(name, piece, content, how));
        }
        let name = format!("f{}", self.rng.below(NAMES));
        let piece = self.rng.below(PIECES);
        if let Some((name, verifier)) = self.verifiers.pop_first()
            && self.files.contains_key(&name)
        {
            return Some(Act::ExclusiveAgain(name, verifier));
        }
        let there = self.files.contains_key(&name);
        if !there {
            if let (true, false) = (self.rng.chance(0.1), self.dead.is_empty()) {
                return Some(Act::Dead(self.rng.below(self.dead.len() as u64) as usize));
            }
            let exclusive = self.rng.chance(0.3);
            return Some(if exclusive { Act::Exclusive(name) } else { Act::Create(name) });
        }
        Some(match self.rng.below(20) {
            0..10 => {
                self.contents += 1;
                let how = if self.rng.chance(0.7) { 0 } else { 2 };
                Act::Write(name, piece, self.contents, how)
            }
            10..13 => Act::Commit(name),
            13..16 => Act::Read(name, piece),
            16 => Act::Look(name),
            17 => {
                let to = format!("f{}", self.rng.below(NAMES));
                if self.files.contains_key(&to) {
                    return None;
                }
                Act::Rename(name, to)
            }
            _ => Act::Remove(name),
        })
    }

    /// The call for an act, which is noted as sent.
    async fn record(this: &Rc<RefCell<Client>>, net: &Rc<Net>, act: &Act) -> Verdict<Vec<u8>> {
        let dir = match (act, this.borrow().dir.clone()) {
            (Act::MakeDir, _) => None,
            (_, dir) => dir,
        };
        let dir = match dir {
            Some(dir) => dir,
            None => Client::root(this, net, false).await?,
        };
        let mut client = this.borrow_mut();
        let mut out = head(client.next_xid(), proc::NFS, procedure(act));
        client.names(act, &dir, &mut out);
        client.data(act, &mut out);
        Ok(out.into_bytes()[4..].to_vec())
    }

    /// The arguments of calls on names.
    fn names(&mut self, act: &Act, dir: &[u8], out: &mut Writer) {
        let place = |out: &mut Writer, name: &str| {
            out.opaque(dir);
            out.opaque(name.as_bytes());
        };
        match act {
            Act::MakeDir => {
                place(out, &format!("c{}", self.number));
                attrs::settings(out, &SetAttr::default());
            }
            Act::Create(name) => {
                place(out, name);
                out.u32(1);
                attrs::settings(out, &SetAttr { mode: Some(0o600), ..SetAttr::default() });
            }
            Act::Exclusive(name) => {
                place(out, name);
                out.u32(2);
                let verifier = (u64::from(self.xid) << 32 | self.number).to_be_bytes();
                out.fixed(&verifier);
                self.verifiers.insert(name.clone(), verifier);
            }
            Act::ExclusiveAgain(name, verifier) => {
                place(out, name);
                out.u32(2);
                out.fixed(verifier);
            }
            Act::Remove(name) | Act::Look(name) => place(out, name),
            Act::Rename(name, to) => {
                place(out, name);
                place(out, to);
            }
            _ => {}
        }
    }

    /// The arguments of calls on files.
    fn data(&mut self, act: &Act, out: &mut Writer) {
        let handle =
            |name: &str| self.files.get(name).map(|f| f.handle.clone()).unwrap_or_default();
        match act {
            Act::Write(name, piece, content, how) => {
                out.opaque(&handle(name));
                out.u64(piece * PIECE);
                out.u32(PIECE as u32);
                out.u32(*how);
                out.opaque(&bytes(*content));
                if let Some(file) = self.files.get_mut(name) {
                    file.pieces[*piece as usize].later.push(*content);
                }
            }
            Act::Commit(name) => {
                out.opaque(&handle(name));
                out.u64(0);
                out.u32(0);
            }
            Act::Read(name, piece) => {
                out.opaque(&handle(name));
                out.u64(piece * PIECE);
                out.u32(PIECE as u32);
            }
            Act::Dead(nth) => out.opaque(&self.dead[*nth]),
            _ => {}
        }
    }

    /// Takes a reply. `restarted`: an earlier copy of the call went to an earlier server, which may
    /// have executed it. Returns the name of what has to be looked up then ("": the directory).
    fn learn(&mut self, act: &Act, reply: &[u8], restarted: bool) -> Verdict<Option<String>> {
        let mut r = results(reply)?;
        let status = r.u32().map_err(|_| "no status")?;
        let handle = |r: &mut Reader<'_>| {
            r.flag()
                .and_then(|_| r.opaque(64))
                .map(<[u8]>::to_vec)
                .map_err(|_| "no handle".to_string())
        };
        match (act, status) {
            (Act::MakeDir, 0) => self.dir = Some(handle(&mut r)?),
            (Act::ExclusiveAgain(name, _), 0) => {
                if handle(&mut r)? != self.files[name].handle {
                    return Err("another file was made".into());
                }
            }
            (Act::MakeDir, EXISTS) if restarted => return Ok(Some(String::new())),
            (Act::Create(name) | Act::Exclusive(name), 0) => {
                let handle = handle(&mut r)?;
                self.add(name.clone(), handle);
            }
            (Act::Create(name), EXISTS) if restarted => return Ok(Some(name.clone())),
            // A failure between the create and its verifier leaves a file without one.
            (Act::Exclusive(name), EXISTS) if restarted => {
                self.verifiers.remove(name);
                return Ok(Some(name.clone()));
            }
            (Act::Write(name, piece, content, how), 0) => {
                self.wrote(name, (*piece, *content, *how), &mut r)?;
            }
            (Act::Commit(name), 0) => self.committed(name, &mut r)?,
            (Act::Remove(name), 0) => self.gone(name),
            (Act::Remove(name), NO_ENTRY) if restarted => self.gone(name),
            (Act::Rename(name, to), 0) => self.renamed(name, to),
            (Act::Rename(name, to), NO_ENTRY) if restarted => self.renamed(name, to),
            (Act::Read(name, piece), 0) => {
                r.optional(attrs::read_attributes).map_err(|_| "no attributes")?;
                let (_, _) = (r.u32(), r.u32());
                let data = r.opaque(usize::MAX).map_err(|_| "no data")?;
                self.files[name].pieces[*piece as usize].check(data)?;
            }
            (Act::Dead(_), STALE) => {}
            (Act::Look(name), 0) => {
                let found = r.opaque(64).map_err(|_| "no handle")?;
                if found != self.files[name].handle {
                    return Err("another file has its name".into());
                }
            }
            (_, status) => return Err(format!("status {status}")),
        }
        Ok(None)
    }

    fn wrote(
        &mut self,
        name: &str,
        (piece, content, how): (u64, u64, u32),
        r: &mut Reader<'_>,
    ) -> Verdict<()> {
        attrs::read_wcc(r).map_err(|_| "no wcc")?;
        let count = r.u32();
        let (Ok(committed), Ok(verifier)) = (r.u32(), r.u64()) else {
            return Err("a short reply".into());
        };
        if count != Ok(PIECE as u32) || committed < how {
            return Err(format!("{count:?} bytes, committed {committed}"));
        }
        let Some(file) = self.files.get_mut(name) else { return Ok(()) };
        file.uncommitted.retain(|(of, ..)| *of != piece);
        match committed {
            0 => file.uncommitted.push((piece, content, verifier)),
            _ => file.pieces[piece as usize].settle(content),
        }
        Ok(())
    }

    fn committed(&mut self, name: &str, r: &mut Reader<'_>) -> Verdict<()> {
        attrs::read_wcc(r).map_err(|_| "no wcc")?;
        let verifier = r.u64().map_err(|_| "no verifier")?;
        let Some(file) = self.files.get_mut(name) else { return Ok(()) };
        for (piece, content, of_write) in std::mem::take(&mut file.uncommitted) {
            if of_write == verifier {
                file.pieces[piece as usize].settle(content);
            } else {
                self.again.push((name.into(), piece, content));
            }
        }
        Ok(())
    }

    fn gone(&mut self, name: &str) {
        self.again.retain(|(of, ..)| of != name);
        self.dead.extend(self.files.remove(name).map(|file| file.handle));
    }

    fn renamed(&mut self, name: &str, to: &str) {
        if let Some(file) = self.files.remove(name) {
            self.files.insert(to.into(), file);
        }
        self.again.iter_mut().filter(|(of, ..)| of == name).for_each(|again| again.0 = to.into());
    }

    /// Compares everything with what the server has after a restart.
    pub(crate) async fn verify(this: &Rc<RefCell<Client>>, net: &Rc<Net>) -> Verdict<()> {
        let (files, dead, dir, number, pending) = {
            let client = this.borrow();
            let pending = client.pending.clone().map(|(_, act)| act);
            (client.files.clone(), client.dead.clone(), client.dir.clone(), client.number, pending)
        };
        let Some(dir) = dir else { return Ok(()) };
        let open: BTreeSet<&str> = match &pending {
            Some(Act::Create(name) | Act::Exclusive(name) | Act::Remove(name)) => [&**name].into(),
            Some(Act::Rename(name, to)) => [&**name, &**to].into(),
            _ => BTreeSet::new(),
        };
        for nth in 0..NAMES {
            let name = format!("f{nth}");
            if open.contains(&*name) {
                continue;
            }
            let what = |why: &str| format!("client {number}: after a restart {name} {why}");
            let found = Client::look(this, net, &dir, &name, true).await?;
            match (files.get(&name), found) {
                (None, None) => {}
                (None, Some(_)) => return Err(what("is back")),
                (Some(_), None) => return Err(what("is gone")),
                (Some(file), Some(found)) if found != file.handle => {
                    return Err(what("is another file"));
                }
                (Some(file), Some(_)) => {
                    for (nth, piece) in file.pieces.iter().enumerate() {
                        let data = Client::read(this, net, &file.handle, nth as u64).await?;
                        piece.check(&data).map_err(|why| what(&format!("piece {nth}: {why}")))?;
                    }
                }
            }
        }
        for handle in &dead {
            let xid = this.borrow_mut().next_xid();
            let mut out = head(xid, proc::NFS, proc::GETATTR);
            out.opaque(handle);
            let reply = net.exchange(&out.into_bytes()[4..], true).await;
            let status = results(&reply)?.u32();
            if status != Ok(STALE) {
                return Err(format!("client {number}: a removed file's handle: {status:?}"));
            }
        }
        Ok(())
    }

    async fn read(
        this: &Rc<RefCell<Client>>,
        net: &Rc<Net>,
        handle: &[u8],
        piece: u64,
    ) -> Verdict<Vec<u8>> {
        let xid = this.borrow_mut().next_xid();
        let mut out = head(xid, proc::NFS, proc::READ);
        out.opaque(handle);
        out.u64(piece * PIECE);
        out.u32(PIECE as u32);
        let reply = net.exchange(&out.into_bytes()[4..], true).await;
        let mut r = results(&reply)?;
        if r.u32() != Ok(0) {
            return Err("a file cannot be read".into());
        }
        r.optional(attrs::read_attributes).map_err(|_| "no attributes")?;
        let (_, _) = (r.u32(), r.u32());
        Ok(r.opaque(usize::MAX).map_err(|_| "no data")?.to_vec())
    }
}

impl Piece {
    /// Content that was sent is durable.
    fn settle(&mut self, content: u64) {
        if let Some(at) = self.later.iter().position(|&later| later == content) {
            self.later.drain(..=at);
            self.stable = content;
        }
    }

    /// Compares with what the server has: durable content, or what was sent after it.
    fn check(&self, data: &[u8]) -> Verdict<()> {
        let is = match data.first_chunk() {
            None => 0,
            Some(first) => u64::from_le_bytes(*first),
        };
        let whole = data.is_empty() || bytes(is) == data;
        if whole && (is == self.stable || self.later.contains(&is)) {
            return Ok(());
        }
        Err(format!("has {is:#x}, durable is {:#x}, later {:x?}", self.stable, self.later))
    }
}
