//! NFS: 2,000 connections that do not read their replies, or do not send the rest of a call, beside one that
//! does: it is answered within a second, the server's memory stays within its promise, and SIGTERM ends it
//! within ten seconds, with all of them still there.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};

use super::super::bench::Bench;
use super::super::nfs_client::{Client, Handle};
use super::super::volume::Volume;
use super::super::{Outcome, Scenario};
use super::nfs::Server;
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nfs-crowd",
    about: "2,000 clients of NFS that do not read, beside one that does, and SIGTERM under it",
    limit_s: (180, 400),
    run,
};

/// Connections that do not read.
const CROWD: u64 = 2000;
/// Bytes of a call's data.
const MIB: usize = 1 << 20;
/// READs that each of them sends.
const CALLS: usize = 50;
/// What all calls and replies may take, and what else grows with connections and with the cache.
const PROMISED_MIB: f64 = 128.0;
const BESIDE_MIB: f64 = 64.0;
/// The longest that the client waits which reads, and that the server takes to end, in seconds.
const WAIT_S: f64 = 1.0;
const END_S: f64 = 10.0;

fn run(bench: &Bench) -> Outcome {
    let crowd = descriptors(CROWD + 300) - 300;
    let volume = Volume::make_of(bench, "lfs", "64M")?;
    let server = Server::start(bench, &bench.dir.join("lfs.img"))?;
    let mut client = Client::new(&Arc::new(AtomicU16::new(server.port)), 1);
    let root = client.mount("/")?;
    let file = client.create(&root, "read by all")?;
    client.write_many(&file, &vec![7; MIB], 4, 1)?;
    client.commit(&file)?;
    // On a machine that is busy with other things everything takes longer.
    let calm = longest(&mut client, &file, 40)?;
    let before = most_mib(server.pid())?;
    let (streams, joining) = join(&mut client, &file, server.port, crowd)?;
    let there = longest(&mut client, &file, 100)?;
    let most = most_mib(server.pid())?;
    let watch = Stopwatch::start();
    server.stop()?;
    let end = watch.seconds();
    drop(streams);
    volume.check()?;
    let told = format!(
        "{crowd} connections: GETATTR at most {:.3} s while they came and {:.3} s beside them ({:.3} s without), \
         READ of 1 MiB {:.3} s, memory {before:.0} to {most:.0} MiB, ended in {end:.1} s",
        joining.0, there.0, calm.0, there.1
    );
    let [wait_s, end_s] =
        [WAIT_S, END_S].map(|s| bench.at_most(Duration::from_secs_f64(s)).as_secs_f64());
    let slow = joining.0.max(there.0) > wait_s + 4.0 * calm.0;
    let large = most > before + PROMISED_MIB + BESIDE_MIB;
    if slow || large || end > end_s { Err(told.into()) } else { Ok(told) }
}

/// Raises the number of descriptors that this process may have as far as possible; returns it.
fn descriptors(wanted: u64) -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        let _ = setrlimit(Resource::Nofile, limit);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(wanted).clamp(400, wanted)
}

/// The longest waits for a GETATTR and for a READ, in seconds.
fn longest(client: &mut Client, file: &Handle, rounds: usize) -> Result<(f64, f64), String> {
    let (mut small, mut large) = (0f64, 0f64);
    for round in 0..rounds {
        let watch = Stopwatch::start();
        client.getattr(file)?;
        small = small.max(watch.seconds());
        let watch = Stopwatch::start();
        if client.read(file, ((round % 4) * MIB) as u64, MIB as u32)? != vec![7; MIB] {
            return Err("a read has other bytes".into());
        }
        large = large.max(watch.seconds());
        pause_ms(20);
    }
    Ok((small, large))
}

/// Lets the crowd come; returns it, and the longest waits meanwhile.
fn join(
    client: &mut Client,
    file: &Handle,
    port: u16,
    crowd: u64,
) -> Result<(Vec<TcpStream>, (f64, f64)), String> {
    let read = client.read_call(file, 0, MIB as u32).repeat(CALLS);
    let half = client.write_call(file, 0, &vec![7; MIB]);
    let half = &half[..half.len() / 2];
    let mut waits = (0f64, 0f64);
    let mut streams = Vec::new();
    for n in 0..crowd {
        let stream = TcpStream::connect(("127.0.0.1", port));
        let mut stream = stream.map_err(|error| format!("connection {n}: {error}"))?;
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        // As much as the socket takes.
        let _ = stream.write(if n % 4 == 3 { half } else { &read });
        streams.push(stream);
        if n % 50 == 0 {
            let watch = Stopwatch::start();
            client.getattr(file)?;
            waits.0 = waits.0.max(watch.seconds());
        }
    }
    Ok((streams, waits))
}

/// The most memory that a process has had, in MiB.
fn most_mib(pid: u32) -> Result<f64, String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.map_err(|error| format!("the server is gone: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| "no memory in its status".into())
}
