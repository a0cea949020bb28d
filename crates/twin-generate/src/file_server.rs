//! `file-server`: the requests of one of the file servers of Blackwell, Harris and Seltzer
//! ([`twin_trace::nfs`]), as operations on a volume.
//!
//! The stream is that of the study of cleaning in idle times, so that the same requests drive a
//! mounted or simulated log and the study's bare one. A server is scaled down: its rates and pauses
//! stay, its time and its files shrink. Each client of the workload is a server of its own.
//!
//! What NFS calls a lookup searches a directory for a name that is not there, which reads the
//! directory and keeps no reference; a rename changes the name of an empty file that each directory
//! has for it. With `durable=yes` a client waits after each change until it is on the disk, as
//! version 2 of NFS demands.

use std::collections::BTreeMap;

use twin_fs::{Ino, ROOT_INO, SetAttr};
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::nfs::{self, BLOCK_BYTES, NodeId, SERVERS, Stream, Totals};
use twin_trace::{Node, Source};

use crate::Kind;
use crate::script::{Burst, FIRST_INO, Script, Scripted, node};

const SECTOR: u64 = 512;

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "file-server",
    "requests to a file server of 1995 (Heuristic Cleaning), over days with pauses",
    Kind {
        params: &[
            Param::new("server", "2", Unit::number(1, 3), "1: Attic, 2: Cellar, 3: Maytag"),
            Param::new("part", "5%", Unit::Percent(100), "how much of its time and of its files"),
            Param::new("durable", "no", Unit::YesNo, "each change is durable before its answer"),
        ],
        stands_for: None,
        start,
    },
);

/// A client: a server with the requests that it gets.
struct FileServer {
    stream: Stream,
    /// The inode of its first node: its directories, then its files, then the files for renames.
    first: Ino,
    /// The sizes of the nodes at the start, in sectors.
    sizes: Vec<Option<u32>>,
    directories: u32,
    /// Whether each change is durable before its answer.
    durable: bool,
    /// Inode and size in bytes of the nodes that exist.
    nodes: BTreeMap<NodeId, (Ino, u64)>,
    /// For each directory: whether its file for renames has its second name.
    renamed: Vec<bool>,
}

struct FileServers(Vec<FileServer>);

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let server: &Totals = &SERVERS[values.number("server") as usize - 1];
    let part = values.number("part").max(1) as f64 / 100.0;
    let mut first = FIRST_INO;
    let servers = (0..values.number("clients")).map(|client| {
        let stream = Stream::new(&server.scaled(part), seed + client);
        let server = FileServer::new(first, stream, values.yes("durable"));
        first += server.count();
        server
    });
    let script = FileServers(servers.collect());
    Scripted::start(ENTRY.name, script, &values, seed)
}

fn name_of(node: NodeId) -> String {
    format!("f{node}")
}

/// The names of the file that a directory has for renames.
const NAMES: [&[u8]; 2] = [b"old", b"new"];

impl FileServer {
    fn new(first: Ino, stream: Stream, durable: bool) -> FileServer {
        let sizes = stream.sizes().to_vec();
        let directories = stream.directories();
        let known = sizes.iter().enumerate().filter_map(|(at, size)| {
            let bytes = u64::from((*size)?) * SECTOR;
            Some((at as NodeId, (first + at as u64, bytes)))
        });
        let nodes = known.collect();
        let renamed = vec![false; directories as usize];
        FileServer { stream, first, sizes, directories, durable, nodes, renamed }
    }

    /// The number of nodes at the start.
    fn count(&self) -> u64 {
        self.sizes.len() as u64 + u64::from(self.directories)
    }

    fn dir(&self, dir: NodeId) -> Ino {
        self.first + u64::from(dir)
    }

    /// A node that exists at the start.
    fn node(&self, index: u64) -> Node {
        let (at, of_all) = (index as usize, self.first - FIRST_INO + index);
        if at < self.directories as usize {
            return node(of_all, ROOT_INO, format!("d{of_all}").as_bytes(), None);
        }
        match self.sizes.get(at) {
            Some(size) => {
                let dir = self.dir(self.stream.dir_of(at as NodeId));
                let bytes = u64::from(size.unwrap_or(0)) * SECTOR;
                node(of_all, dir, name_of(at as NodeId).as_bytes(), Some(bytes))
            }
            None => {
                let dir = self.dir((at - self.sizes.len()) as NodeId);
                node(of_all, dir, NAMES[0], Some(0))
            }
        }
    }

    /// Adds the operations of a request, none if its file is gone.
    fn answer(&mut self, kind: nfs::Kind, out: &mut Burst) {
        let block = u64::from(BLOCK_BYTES);
        match kind {
            nfs::Kind::GetAttr(node) => {
                if let Some(&(ino, _)) = self.nodes.get(&node) {
                    out.getattr(ino);
                }
            }
            nfs::Kind::ReadDir(dir) => out.miss(self.dir(dir), b"not there"),
            nfs::Kind::Read(node, at) => {
                if let Some(&(ino, size)) = self.nodes.get(&node) {
                    let off = u64::from(at) * block;
                    let len = size.saturating_sub(off).min(block);
                    if len > 0 {
                        out.read(ino, off, len);
                    }
                }
            }
            nfs::Kind::Write(node, at, bytes) => {
                if let Some((ino, size)) = self.nodes.get_mut(&node) {
                    let off = u64::from(at) * block;
                    *size = (*size).max(off + u64::from(bytes));
                    let ino = *ino;
                    out.write(ino, off, u64::from(bytes));
                    self.sync(ino, out);
                }
            }
            nfs::Kind::SetAttr(node) => {
                if let Some(&(ino, _)) = self.nodes.get(&node) {
                    out.setattr(ino, SetAttr { mode: Some(0o644), ..SetAttr::default() });
                    self.sync(ino, out);
                }
            }
            nfs::Kind::Truncate(node) => {
                if let Some((ino, size)) = self.nodes.get_mut(&node) {
                    *size = 0;
                    let ino = *ino;
                    out.setattr(ino, SetAttr { size: Some(0), ..SetAttr::default() });
                    self.sync(ino, out);
                }
            }
            nfs::Kind::Create { .. } | nfs::Kind::Remove { .. } | nfs::Kind::Rename(_) => {
                self.change_names(kind, out);
            }
        }
    }

    /// Waits until what was changed of a file or directory is durable, if that is asked for.
    fn sync(&self, ino: Ino, out: &mut Burst) {
        if self.durable {
            out.fsync(ino, false);
        }
    }

    fn change_names(&mut self, kind: nfs::Kind, out: &mut Burst) {
        match kind {
            nfs::Kind::Create { dir, node } => {
                let ino = out.create(self.dir(dir), name_of(node).as_bytes());
                out.release(ino);
                self.sync(self.dir(dir), out);
                self.nodes.insert(node, (ino, 0));
            }
            nfs::Kind::Remove { dir, node } => {
                if let Some((ino, _)) = self.nodes.remove(&node) {
                    out.unlink(self.dir(dir), name_of(node).as_bytes());
                    out.forget(ino, 1);
                    self.sync(self.dir(dir), out);
                }
            }
            nfs::Kind::Rename(dir) => {
                let is_new = &mut self.renamed[dir as usize];
                *is_new = !*is_new;
                let (from, to) = if *is_new { (NAMES[0], NAMES[1]) } else { (NAMES[1], NAMES[0]) };
                let dir = self.dir(dir);
                out.rename(dir, from, dir, to);
                self.sync(dir, out);
            }
            _ => {}
        }
    }
}

impl Script for FileServers {
    fn nodes(&self) -> u64 {
        self.0.iter().map(FileServer::count).sum()
    }

    fn node(&mut self, index: u64) -> Node {
        let ino = FIRST_INO + index;
        let after = self.0.partition_point(|server| server.first <= ino);
        let server = &self.0[after - 1];
        server.node(ino - server.first)
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let server = &mut self.0[client];
        let Some(op) = server.stream.next() else { return false };
        out.wait_until(op.at);
        server.answer(op.kind, out);
        true
    }
}
