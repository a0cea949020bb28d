//! The speed of the NFS server beside others: nfs-ganesha, and the server of the crate `nfs3_server`, both over
//! ext4. One client, alternating rounds, volumes on loop devices. It judges nothing: figures of a busy machine are
//! worthless, so it also tells the load.
//!
//! On ext4 nfs-ganesha answers changes of names before they are durable, against the protocol; with `dirsync` they
//! are, as they are by default here, and with `replies=early` (`twinfs-early`) it is the other way round. So
//! compare `twinfs` with `ganesha-dirsync` and `twinfs-early` with `ganesha`. nfs3_server makes nothing durable: it
//! answers WRITE with FILE_SYNC and has no fsync, so its creates, writes and removes compare with nothing.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use super::super::bench::Bench;
use super::super::nfs_client::{Client, Handle};
use super::super::{Outcome, Scenario, Stop, tools};
use super::nfs::Server;
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nfs-peers",
    about: "the speed of the NFS server beside nfs-ganesha and nfs3_server on ext4, if they are there",
    limit_s: (600, 1800),
    run,
};

/// Bytes of a transfer, and transfers under way at once, of the sequential loads.
const TRANSFER: usize = 64 << 10;
const WINDOW: usize = 8;
/// Ticks of processor time in a second, which Linux fixes for programs.
const TICKS: f64 = 100.0;
/// The size of the volumes.
const VOLUME: &str = "3G";

/// The loads, in the order in which they run, and the unit of their figures.
const LOADS: [(&str, &str); 6] = [
    ("creates: CREATE, WRITE of 4 KiB, COMMIT", "files/s"),
    ("reads: LOOKUP, READ of 4 KiB", "files/s"),
    ("sequential write, with COMMIT", "MiB/s"),
    ("sequential read", "MiB/s"),
    ("WRITE of 4 KiB and COMMIT", "pairs/s"),
    ("removes", "files/s"),
];

fn run(bench: &Bench) -> Outcome {
    tools::need(bench, &[("mkfs.ext4", "e2fsprogs"), ("losetup", "mount")])?;
    let mut peers = vec!["twinfs", "twinfs-early"];
    if tools::in_path("ganesha.nfsd") && tools::in_path("rpcbind") {
        peers.extend(["ganesha-dirsync", "ganesha"]);
    }
    if tools::in_path("cargo-nfs3-server") {
        peers.push("nfs3_server");
    }
    if peers.len() == 2 {
        let why = "no peer: Debian packages nfs-ganesha-vfs and rpcbind, or `cargo install \
                   cargo-nfs3-server`";
        return Err(Stop::Skipped(why.into()));
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let rounds = bench.size(1, 5);
    let mut figures = vec![vec![Vec::new(); LOADS.len()]; peers.len()];
    for _ in 0..rounds {
        for (peer, all) in peers.iter().zip(&mut figures) {
            let running = Running::start(bench, peer)?;
            let done = loads(&running, bench)?;
            all.iter_mut().zip(done).for_each(|(all, one)| all.push(one));
            running.stop()?;
        }
    }
    let mut told = format!(
        "{rounds} rounds, load before {}; medians (ranges; processor time of the server for each)",
        load.trim()
    );
    for (at, (name, unit)) in LOADS.iter().enumerate() {
        let _ = write!(told, "\n  {name}, {unit}:");
        for (peer, all) in peers.iter().zip(&mut figures) {
            let all = &mut all[at];
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let ((low, _), middle, (high, _)) = (all[0], all[all.len() / 2], all[all.len() - 1]);
            let (middle, busy) = middle;
            let _ = write!(told, " {peer} {middle:.0} ({low:.0} to {high:.0}; {busy:.0} us);");
        }
    }
    Ok(told)
}

/// Runs all loads on a server. Returns for each how much was done in a second, and the microseconds of
/// processor time of the server's process for each unit of it.
fn loads(running: &Running, bench: &Bench) -> Result<Vec<(f64, f64)>, String> {
    let root = running.mount()?;
    let mut client = Client::new(&Arc::new(AtomicU16::new(running.port)), 1);
    let (files, bytes) = (bench.size(300, 2000), bench.size(64 << 20, 512 << 20));
    let small = [7; 4096];
    let mut figures = Vec::new();
    let mut busy = running.processor_seconds();
    let mut note = |amount: f64, watch: &Stopwatch| {
        let now = running.processor_seconds();
        figures.push((amount / watch.seconds(), (now - busy) * 1e6 / amount));
        busy = now;
    };
    let watch = Stopwatch::start();
    for n in 0..files {
        let file = client.create(&root, &format!("f{n}"))?;
        client.write(&file, 0, &small)?;
        client.commit(&file)?;
    }
    note(files as f64, &watch);
    let watch = Stopwatch::start();
    for n in 0..files {
        let file: Handle = client.lookup(&root, &format!("f{n}"))?.ok_or("a file is missing")?;
        if client.read(&file, 0, 4096)? != small {
            return Err("a file has other content".into());
        }
    }
    note(files as f64, &watch);
    let large = client.create(&root, "large")?;
    let data = vec![9; TRANSFER];
    let count = bytes / TRANSFER;
    let watch = Stopwatch::start();
    client.write_many(&large, &data, count, WINDOW)?;
    client.commit(&large)?;
    note(bytes as f64 / 1_048_576.0, &watch);
    let watch = Stopwatch::start();
    client.read_many(&large, TRANSFER, count, WINDOW)?;
    note(bytes as f64 / 1_048_576.0, &watch);
    let watch = Stopwatch::start();
    for n in 0..files {
        client.write(&large, n as u64 * 4096, &small)?;
        client.commit(&large)?;
    }
    note(files as f64, &watch);
    let watch = Stopwatch::start();
    for n in 0..files {
        client.remove(&root, &format!("f{n}"))?;
    }
    note(files as f64, &watch);
    Ok(figures)
}

/// A server with a new volume on a loop device.
struct Running {
    port: u16,
    /// The port of MOUNT, and the path to mount.
    mount: (u16, String),
    device: String,
    kind: Kind,
}

enum Kind {
    Ours(Server),
    Peer { children: Vec<Child>, dir: PathBuf },
}

impl Running {
    fn start(bench: &Bench, peer: &str) -> Result<Running, String> {
        let image = bench.dir.join("peers.img");
        let _ = fs::remove_file(&image);
        bench.shell(&bench.dir, &format!("truncate -s {VOLUME} peers.img"))?;
        let device = bench.shell(&bench.dir, "losetup -f --show peers.img")?.trim().to_owned();
        let (port, mount, kind) = match peer {
            "twinfs" | "twinfs-early" => {
                let mut mkfs = Command::new(&bench.program);
                bench.run(mkfs.args(["mkfs", "--layout", "lfs", "--force"]).arg(&device))?;
                let rules = if peer == "twinfs" { "" } else { ",replies=early" };
                let server = Server::start_with(bench, Path::new(&device), 0, rules)?;
                (server.port, (server.port, "/".into()), Kind::Ours(server))
            }
            _ => {
                let dir = bench.dir.join("ext4");
                fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
                let option = if peer == "ganesha-dirsync" { "-o dirsync" } else { "" };
                let mount = format!("mkfs.ext4 -q -F {device} && mount {option} {device} ext4");
                bench.shell(&bench.dir, &mount)?;
                let port = free_port()?;
                let (mount, children) = match peer {
                    "ganesha" | "ganesha-dirsync" => {
                        let mount_port = free_port()?;
                        let path = dir.display().to_string();
                        ((mount_port, path), ganesha(bench, &dir, port, mount_port)?)
                    }
                    _ => ((port, "/".into()), vec![mirror(&dir, port)?]),
                };
                (port, mount, Kind::Peer { children, dir })
            }
        };
        let running = Running { port, mount, device, kind };
        for port in [running.mount.0, port] {
            wait_for(port)?;
        }
        Ok(running)
    }

    /// The processor time of its processes so far, of which a peer's kernel threads are no part.
    fn processor_seconds(&self) -> f64 {
        let pid = match &self.kind {
            Kind::Ours(server) => server.pid(),
            Kind::Peer { children, .. } => children.first().map_or(0, Child::id),
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
        ticks.iter().sum::<f64>() / TICKS
    }

    /// The handle of its root.
    fn mount(&self) -> Result<Handle, String> {
        let (port, path) = &self.mount;
        Client::new(&Arc::new(AtomicU16::new(*port)), 1 << 20).mount(path)
    }

    fn stop(mut self) -> Result<(), String> {
        let empty = Kind::Peer { children: Vec::new(), dir: PathBuf::new() };
        match std::mem::replace(&mut self.kind, empty) {
            Kind::Ours(server) => server.stop(),
            Kind::Peer { children, dir } => {
                end(children);
                self.kind = Kind::Peer { children: Vec::new(), dir };
                Ok(())
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Kind::Peer { children, dir } = &mut self.kind {
            end(std::mem::take(children));
            if dir.exists() {
                let _ = Command::new("umount").arg(&*dir).status();
            }
        }
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

fn end(children: Vec<Child>) {
    for mut child in children {
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let _ = child.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
    free().map(|address| address.port()).map_err(|error: io::Error| format!("a port: {error}"))
}

/// Waits until a server listens.
fn wait_for(port: u16) -> Result<(), String> {
    let mut said = String::new();
    for _ in 0..100 {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(_) => return Ok(()),
            Err(error) => said = format!("the server does not listen: {error}"),
        }
        pause_ms(100);
    }
    Err(said)
}

/// nfs-ganesha with its FSAL for Linux file systems, and the portmapper without which it does not start.
fn ganesha(bench: &Bench, dir: &Path, port: u16, mount_port: u16) -> Result<Vec<Child>, String> {
    let config = bench.dir.join("ganesha.conf");
    let text = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {port}; MNT_Port = {mount_port}; Enable_NLM = false; \
         Enable_RQUOTA = false; Bind_addr = 127.0.0.1; }}\n\
         EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /; Protocols = 3; Transports = TCP; \
         Access_Type = RW; Squash = No_root_squash; SecType = sys; FSAL {{ Name = VFS; }} }}\n",
        dir.display()
    );
    fs::write(&config, text).map_err(|error| error.to_string())?;
    let mut rpcbind = Command::new("rpcbind");
    rpcbind.arg("-f").stdout(Stdio::null()).stderr(Stdio::null());
    let rpcbind = rpcbind.spawn().map_err(|error| format!("rpcbind: {error}"))?;
    pause_ms(300);
    let mut server = Command::new("ganesha.nfsd");
    server.arg("-F").arg("-f").arg(&config).arg("-L").arg(bench.dir.join("ganesha.log"));
    server.arg("-p").arg(bench.dir.join("ganesha.pid")).stdout(Stdio::null()).stderr(Stdio::null());
    match server.spawn() {
        Ok(server) => Ok(vec![server, rpcbind]),
        Err(error) => {
            end(vec![rpcbind]);
            Err(format!("ganesha.nfsd: {error}"))
        }
    }
}

/// The server of the crate `nfs3_server` over a folder.
fn mirror(dir: &Path, port: u16) -> Result<Child, String> {
    let mut server = Command::new("cargo-nfs3-server");
    server.arg("--path").arg(dir).args(["--quiet", "--bind-ip", "127.0.0.1", "--bind-port"]);
    server.arg(port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    server.spawn().map_err(|error| format!("cargo-nfs3-server: {error}"))
}
