//! Makes a volume in a file if there is none, and mounts it until it is unmounted or interrupted.
//!
//! ```text
//! cargo run --release --example mount -- /tmp/disk.img /mnt [LAYOUT]
//! ```

use std::error::Error;
use std::path::Path;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::{Cpu, Identity, Settings};
use twin_host::fuse::{Deputy, Mount, MountOptions, Session, SessionOptions, serve};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions, Signals, create_image};
use twin_rt::SECS;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [image, dir, layout @ ..] = &args[..] else {
        return Err("usage: mount IMAGE DIRECTORY [LAYOUT]".into());
    };
    // A layout is an entry of a registry; its settings come with it.
    let layout = twin_lab::layouts::layout(layout.first().map_or("lfs", |name| name))?;
    let config = layout.config();
    let is_new = !Path::new(image).exists();
    if is_new {
        create_image(Path::new(image), 256 << 20)?;
    }
    // Before there is any thread: the process that calls into the mount for us.
    let deputy = Deputy::start()?;
    // The host is the real world: it has the clock, and the one place where the thread waits.
    let host = Host::start(HostOptions::default())?;
    let device = FileDevice::open(&host, Path::new(image), &ImageOptions::default())?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    if is_new {
        let identity = Identity { uuid: *b"example of mount", root: (0, 0, 0o755) };
        let made = config.mkfs(host.rt(), Rc::clone(&device), identity);
        println!("{}", host.rt().block_on(made)??);
    }
    let opening = config.open(host.rt(), device, Cpu::none(), Settings::default());
    let opened = host.rt().block_on(opening)??;
    // From here on the session answers the requests of the kernel on this thread.
    let signals = Rc::new(Signals::listen_for_stop(&host)?);
    let mount = Mount::new(Path::new(dir), &MountOptions::default(), deputy)?;
    let volume = Rc::new(opened.volume.clone());
    let session = Session::new(&host, mount.fd(), volume, SessionOptions::default());
    host.rt().block_on(serve(&host, mount, &session, Some(signals), 5 * SECS, || Ok(())))??;
    // When this returns, everything that was acknowledged to clients is durable.
    host.rt().block_on(opened.volume.close())??;
    Ok(())
}
