//! A mount of a volume that is served over NFS at the same time: each side sees at once what the other
//! does.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use super::super::bench::Bench;
use super::super::nfs_client::{Client, Handle};
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nfs-mount",
    about: "a mount with --serve: written through the one and read through the other, both ways",
    limit_s: (120, 300),
    run,
};

/// The longest file, in bytes: what one READ returns.
const LONGEST: usize = 30_000;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let rounds = bench.size(40, 400);
    for layout in ["lfs", "ffs"] {
        let port = free_port()?;
        let mut volume = Volume::make_of(bench, layout, "64M")?;
        let place = port.to_string();
        volume.set_options(&["--serve", &place, "--export", "/:squash=none"]);
        volume.mount()?;
        let mut client = Client::new(&Arc::new(AtomicU16::new(port)), 1);
        let root = client.mount("/")?;
        let mut rng = Rng::new(bench.seed);
        for round in 0..rounds {
            both_ways(&volume, &mut client, &root, &mut rng)
                .map_err(|why| format!("{layout}, round {round}: {why}"))?;
        }
        volume.umount_and_check()?;
    }
    Ok(format!("{rounds} rounds on each of two layouts"))
}

/// A port that nobody has. Somebody else may take it before the mount does; the scenario then fails.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| TcpListener::local_addr(&listener));
    address.map(|address| address.port()).map_err(|error| format!("a free port: {error}"))
}

fn both_ways(
    volume: &Volume<'_>,
    client: &mut Client,
    root: &Handle,
    rng: &mut Rng,
) -> Result<(), String> {
    let path = volume.dir().join("file");
    let text = |error: std::io::Error| format!("on the mount: {error}");
    let len = 1 + rng.below(LONGEST);
    let (first, second) = (rng.bytes(len), rng.bytes(len));
    // Made on the mount, seen by the client.
    fs::write(&path, &first).map_err(text)?;
    let file = client.lookup(root, "file")?.ok_or("the client does not see a new file")?;
    same("the client", &client.read(&file, 0, len as u32)?, &first)?;
    // The same length and name: only its time tells the kernel that its pages are old.
    same("the mount", &fs::read(&path).map_err(text)?, &first)?;
    client.write(&file, 0, &second)?;
    client.commit(&file)?;
    same("the mount, after a change by the client", &fs::read(&path).map_err(text)?, &second)?;
    // Removed by the client, gone on the mount; and the other way.
    client.remove(root, "file")?;
    match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        other => {
            return Err(format!(
                "the client removed it, the mount says {:?}",
                other.map(|c| c.len())
            ));
        }
    }
    let file = client.create(root, "file")?;
    client.write(&file, 0, &first)?;
    same("the mount, of a client's file", &fs::read(&path).map_err(text)?, &first)?;
    let moved = volume.dir().join("moved");
    fs::rename(&path, &moved).map_err(text)?;
    if client.lookup(root, "file")?.is_some() || client.lookup(root, "moved")?.is_none() {
        return Err("the client does not see a rename".into());
    }
    fs::remove_file(&moved).map_err(text)?;
    match client.lookup(root, "moved")? {
        None => Ok(()),
        Some(_) => Err("the client sees a file that was removed".into()),
    }
}

fn same(who: &str, got: &[u8], wanted: &[u8]) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    let at = got.iter().zip(wanted).position(|(a, b)| a != b);
    Err(format!(
        "{who} reads {} bytes of {}, the first other one at {at:?}",
        got.len(),
        wanted.len()
    ))
}
