//! How long a snapshot takes on a volume with very many files, on a real device.
//!
//! ```sh
//! cargo run --release -p twin-mount --example snapshot_time -- /var/tmp/twinfs-time.img 1000000
//! ```
//!
//! It makes the image, which must not exist and is removed afterwards, with that many files of 100 bytes, and then
//! twenty times changes ten files, syncs, and makes a snapshot. Each line says how long that took and what it
//! wrote.

use std::path::Path;

use twin_fs::snapshots::Keep;
use twin_fs::{Data, Ino, Op, ROOT_INO, Reply, Request, Settings, SyncScope};
use twin_host::{Host, HostOptions, ImageOptions};
use twin_lab::layouts::layout;
use twin_mount::opening::{OpenOptions, Opened, device, open_volume};

/// Files of a directory.
const OF_DIRECTORY: u64 = 1000;
/// Bytes of the volume for each file.
const BYTES_EACH: u64 = 2048;

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let image = arguments.next().ok_or("name an image that does not exist")?;
    let files = arguments.next().map_or(Ok(1_000_000), |files| files.parse::<u64>());
    let files = files.map_err(|error| error.to_string())?;
    let image = Path::new(&image);
    let file = std::fs::File::create_new(image).map_err(|error| error.to_string())?;
    file.set_len((files * BYTES_EACH).max(256 << 20)).map_err(|error| error.to_string())?;
    drop(file);
    let measured = measure(image, files);
    std::fs::remove_file(image).map_err(|error| error.to_string())?;
    measured
}

fn measure(image: &Path, files: u64) -> Result<(), String> {
    let kind = layout("lfs").map_err(|error| error.to_string())?;
    {
        let host = Host::start(HostOptions::default()).map_err(|error| error.to_string())?;
        let (device, _) = device(&host, image, kind, &ImageOptions::default())?;
        let identity = twin_fs::Identity { uuid: [7; 16], root: (0, 0, 0o755) };
        let config = kind.config();
        let making = config.mkfs(host.rt(), std::rc::Rc::new(device), identity);
        let made = host.rt().block_on(making).map_err(|error| error.to_string())?;
        println!("{}", made.map_err(|error| error.to_string())?);
    }
    let settings = Settings { cache_bytes: 512 << 20, ..Settings::default() };
    let options = OpenOptions { settings, ..OpenOptions::of(kind) };
    let Opened { host, volume, .. } = open_volume(image, options).map_err(|refused| refused.why)?;
    let mut id = 0;
    let mut ask = |op: Op| -> Result<Reply, String> {
        id += 1;
        let done = host.rt().block_on(volume.execute(Request::root(id, op)));
        done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    };
    let ino_of = |reply: Reply| match reply {
        Reply::Entry(entry) => entry.attr.ino,
        _ => 0,
    };
    let (mut dir, mut some): (Ino, Vec<Ino>) = (ROOT_INO, Vec::new());
    let begun = host.now();
    for n in 0..files {
        if n % OF_DIRECTORY == 0 {
            let name = format!("d{}", n / OF_DIRECTORY).into_bytes().into();
            dir = ino_of(ask(Op::MakeDir { dir: ROOT_INO, name, mode: 0o755 })?);
        }
        let name = format!("file {n}").into_bytes().into();
        let ino = ino_of(ask(Op::Create { dir, name, mode: 0o644, exclusive: true })?);
        let data = Data::Bytes(twin_disk::Bytes::copy_of(&[n as u8; 100]));
        ask(Op::Write { ino, off: 0, data })?;
        if n % (files / 10).max(1) == 0 {
            some.push(ino);
        } else {
            ask(Op::Release { ino })?;
            ask(Op::Forget { ino, count: 1 })?;
        }
    }
    println!("{files} files in {:.1} s", host.now().since(begun) as f64 / 1e9);
    let core = volume.core();
    let sync = || volume.layout().sync(core, SyncScope::Volume);
    let snapshots = volume.layout().views().snapshots.ok_or("no snapshots")?;
    for n in 0..20u64 {
        for &ino in &some {
            let data = Data::Bytes(twin_disk::Bytes::copy_of(&[n as u8; 100]));
            ask(Op::Write { ino, off: 0, data })?;
        }
        let told = |error: &dyn std::fmt::Display| error.to_string();
        host.rt().block_on(sync()).map_err(|e| told(&e))?.map_err(|e| told(&e))?;
        let (begun, before) = (host.now(), volume.written().bytes);
        let name = format!("s{n}");
        let kept = host.rt().block_on(snapshots.keep(core, &name, Keep::Snapshot));
        kept.map_err(|e| told(&e))?.map_err(|e| told(&e))?;
        let took = host.now().since(begun) as f64 / 1e6;
        println!("{name}: {took:.2} ms, {} KiB", (volume.written().bytes - before) >> 10);
    }
    let closed = host.rt().block_on(volume.close()).map_err(|error| error.to_string())?;
    closed.map_err(|error| error.to_string())
}
