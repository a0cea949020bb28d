//! NFS: libnfs's programs work; a hard client sees no error while the server is restarted and
//! killed; what COMMIT acknowledged is there afterwards.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;

use super::super::bench::Bench;
use super::super::nfs_client::Client;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nfs",
    about: "serves volumes over NFS: libnfs's programs, and a hard client while the server restarts",
    limit_s: (120, 900),
    run,
};

/// Bytes of one write of the client.
const PIECE: usize = 32 << 10;
/// Files that the client has at a time.
const FILES: u64 = 40;

fn run(bench: &Bench) -> Outcome {
    tools::need(bench, &[("nfs-cp", "libnfs-utils")])?;
    let mut told = Vec::new();
    let layouts: &[&str] = if bench.full { &["lfs", "ffs", "vsfs"] } else { &["lfs", "vsfs"] };
    for layout in layouts {
        let volume = Volume::make_of(bench, layout, "64M")?;
        let image = bench.dir.join(format!("{layout}.img"));
        use_programs(bench, &image)?;
        volume.check()?;
        // Killing is not for a layout that promises nothing of a crash.
        let kills = *layout != "vsfs";
        let done = restart_under_load(bench, &image, bench.size(6, 50), kills)?;
        volume.check()?;
        told.push(format!("{layout}: {done}"));
    }
    Ok(told.join("; "))
}

/// A server in the foreground, which is killed when it is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    pub(super) fn start(bench: &Bench, image: &Path) -> Result<Server, String> {
        Server::start_at(bench, image, 0)
    }

    /// The same at a port; 0: one that is free.
    pub(super) fn start_at(bench: &Bench, image: &Path, port: u16) -> Result<Server, String> {
        Server::start_with(bench, image, port, "")
    }

    /// The same with more rules for clients.
    pub(super) fn start_with(
        bench: &Bench,
        image: &Path,
        port: u16,
        rules: &str,
    ) -> Result<Server, String> {
        let mut child = Command::new(&bench.program)
            .args(["serve", "--foreground", "--export"])
            .arg(format!("/:squash=none{rules}"))
            .arg("--port")
            .arg(port.to_string())
            .arg(image)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("twinfs serve: {error}"))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let port = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split(',').next());
        match port.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Server { child, port }),
            None => {
                let _ = child.kill();
                let mut why = String::new();
                let _ = child.stderr.take().map(|mut err| err.read_to_string(&mut why));
                let _ = child.wait();
                Err(format!("twinfs serve says {line:?} ({read:?}): {why}"))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGTERM, and checks that it ended well.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        Command::new("kill").arg(&pid).output().map_err(|error| format!("kill: {error}"))?;
        let status = self.child.wait().map_err(|error| format!("waiting: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("twinfs serve ended with {status}")) }
    }

    fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies files in and out, and lists them, with the programs of libnfs.
fn use_programs(bench: &Bench, image: &Path) -> Result<(), String> {
    let server = Server::start(bench, image)?;
    let port = server.port;
    // Two slashes: libnfs mounts what is before the last one.
    let url = |path: &str| format!("nfs://127.0.0.1//{path}?nfsport={port}&mountport={port}");
    for (name, len) in [("empty", 0), ("small", 5), ("large", 3_000_000)] {
        let content = Rng::new(bench.seed).bytes(len);
        let (from, back) = (bench.dir.join(name), bench.dir.join(format!("{name}.back")));
        fs::write(&from, &content).map_err(|error| format!("{name}: {error}"))?;
        let _ = fs::remove_file(&back);
        bench.run(Command::new("nfs-cp").arg(&from).arg(url(name)))?;
        bench.run(Command::new("nfs-cp").arg(url(name)).arg(&back))?;
        let got = fs::read(&back).map_err(|error| format!("{name}: {error}"))?;
        if got != content {
            return Err(format!("{name} came back with {} bytes of {len}, or others", got.len()));
        }
    }
    let listed = bench.run(Command::new("nfs-ls").arg(url("")))?;
    for name in ["empty", "small", "large"] {
        if !listed.lines().any(|line| line.ends_with(name)) {
            return Err(format!("nfs-ls does not list {name}: {listed}"));
        }
    }
    server.stop()
}

/// A client writes, commits and removes files while the server is restarted; some of the restarts
/// are kills. Then every committed file is read.
#[allow(clippy::disallowed_methods)] // A development tool may start threads: this one is the client.
fn restart_under_load(
    bench: &Bench,
    image: &Path,
    restarts: usize,
    kills: bool,
) -> Result<String, String> {
    let mut server = Server::start(bench, image)?;
    let port = Arc::new(AtomicU16::new(server.port));
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (port, stop, seed) = (Arc::clone(&port), Arc::clone(&stop), bench.seed);
        thread::spawn(move || work(&port, &stop, seed))
    };
    let mut killed = 0;
    for n in 0..restarts {
        pause_ms(150 + 37 * (n as u64 % 7));
        if kills && n % 3 == 2 {
            server.kill();
            killed += 1;
        } else {
            server.stop()?;
        }
        server = Server::start(bench, image)?;
        port.store(server.port, Ordering::Relaxed);
    }
    stop.store(true, Ordering::Relaxed);
    let done = load.join().map_err(|_| "the client panicked")??;
    // What was committed must be on the disk, not only in memory.
    server.stop()?;
    let server = Server::start(bench, image)?;
    port.store(server.port, Ordering::Relaxed);
    let mut client = Client::new(&port, 1 << 30);
    let root = client.mount("/")?;
    for (name, content) in &done.files {
        let file = client.lookup(&root, name)?.ok_or_else(|| format!("{name} is lost"))?;
        if client.read(&file, 0, content.len() as u32)? != *content {
            return Err(format!("{name} does not have what was committed"));
        }
    }
    server.stop()?;
    Ok(format!(
        "{restarts} restarts, {killed} of them kills, {} calls sent again, {} rewrites, {} files",
        done.reconnects, done.rewrites, done.written
    ))
}

/// What the load did.
struct Done {
    /// The files at the end, which are committed.
    files: Vec<(String, Vec<u8>)>,
    written: u64,
    rewrites: u64,
    reconnects: u64,
}

fn work(port: &Arc<AtomicU16>, stop: &AtomicBool, seed: u64) -> Result<Done, String> {
    let mut client = Client::new(port, 1);
    let root = client.mount("/")?;
    let mut rng = Rng::new(seed);
    let mut done = Done { files: Vec::new(), written: 0, rewrites: 0, reconnects: 0 };
    while !stop.load(Ordering::Relaxed) {
        let name = format!("file-{}", done.written);
        let len = 1 + rng.below(5 * PIECE);
        let content = rng.bytes(len);
        let file = client.create(&root, &name)?;
        // As long as a restart came between writes and their commit, they are made again.
        loop {
            let mut verifiers = Vec::new();
            for (n, piece) in content.chunks(PIECE).enumerate() {
                verifiers.push(client.write(&file, (n * PIECE) as u64, piece)?);
            }
            let verifier = client.commit(&file)?;
            if verifiers.iter().all(|&of_write| of_write == verifier) {
                break;
            }
            done.rewrites += 1;
        }
        done.files.push((name, content));
        done.written += 1;
        if done.files.len() as u64 > FILES {
            let (name, _) = done.files.remove(0);
            client.remove(&root, &name)?;
        }
    }
    done.reconnects = client.reconnects;
    Ok(done)
}
