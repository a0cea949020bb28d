//! Serving volumes over NFS: they are opened and served until a signal comes, and closed.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

use twin_fs::{FsError, LayoutKind, Settings, Volume};
use twin_host::fuse::Ready;
use twin_host::nfs::{Bounds, Front, connections_possible, listen};
use twin_host::{
    Budget, Grade, Host, HostOptions, IdlePoll, ImageOptions, Signals, Words, random_bytes,
    random_seed, watch_requests,
};
use twin_nfs::{Export, Keys, Served, Server};

use super::shares::Share;
use crate::image::layout_of;
use crate::opening::{OpenOptions, open_beside};

/// The port at which clients look for a portmapper.
const PORTMAP_PORT: u16 = 111;

/// What is served to whom, and how.
pub struct ServeRequest {
    /// The volumes.
    pub shares: Vec<Share>,
    /// What of them clients see.
    pub exports: Vec<Export>,
    /// The address on which to listen.
    pub bind: IpAddr,
    /// The port; 0: one that is free.
    pub port: u16,
    /// Whether to be the portmapper of this machine too.
    pub portmap: bool,
    /// No changes are allowed.
    pub read_only: bool,
    /// Memory for the blocks of each volume.
    pub cache_bytes: u64,
    /// Whether images are read and written through the host's page cache.
    pub buffered: bool,
    /// Whether io_uring may be used.
    pub io_uring: bool,
    /// Whether idle processors poll while clients are busy.
    pub idle_poll: IdlePoll,
}

/// What is ready to serve.
struct Prepared {
    host: Host,
    signals: Signals,
    volumes: Vec<Volume>,
    front: Front,
    address: SocketAddr,
}

/// Opens the volumes and serves them until a signal comes, then closes them. `announce` is given the line that
/// says what is served, if the process is in the foreground.
///
/// # Errors
/// If a port or a volume cannot be had, or something was lost.
pub fn serve_volumes(
    request: &ServeRequest,
    ready: Ready,
    words: &Rc<Words>,
    announce: impl Fn(&str) -> Result<(), String>,
) -> Result<(), String> {
    twin_host::keep_freed_buffers(Budget::usual(request.cache_bytes).free as usize);
    let prepared = match prepare(request, words) {
        Ok(prepared) => prepared,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let Prepared { host, signals, volumes, front, address } = prepared;
    let shares = &request.shares;
    let what: Vec<String> =
        shares.iter().map(|s| format!("{} as {}", s.image.display(), s.path)).collect();
    let line = format!("serving {} on {address}, process {}", what.join(", "), std::process::id());
    if words.is_foreground() {
        announce(&line)?;
    }
    // Before anybody is told that it serves.
    let guard = match host.guard(words) {
        Ok(guard) => guard,
        Err(error) => {
            let why = format!("a thread: {error}");
            ready.failed(&why);
            return Err(why);
        }
    };
    ready.mounted_saying(&line).map_err(|e| e.to_string())?;
    let watched: Vec<_> = volumes.iter().map(|volume| Rc::downgrade(volume.core())).collect();
    watch_requests(&host, &front, words, move |error: FsError| {
        watched.iter().filter_map(std::rc::Weak::upgrade).for_each(|core| {
            core.poison(error.clone());
        });
    });
    let work = async {
        let served = until_told(&front, &signals).await;
        guard.closing();
        let mut losses = Vec::new();
        for (volume, share) in volumes.iter().zip(shares) {
            if let Err(error) = volume.close().await {
                losses.push(format!("{}: closed with loss: {error}", share.image.display()));
            }
        }
        (served, losses)
    };
    let (served, losses) = host.rt().block_on(work).map_err(|e| e.to_string())?;
    // Until the process has ended: letting go of the device waits for its requests too.
    std::mem::forget(guard);
    served?;
    match losses.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}; what clients were told is durable is there, and the next start recovers it",
            losses.join("; ")
        )),
    }
}

/// Serves until a signal comes.
async fn until_told(front: &Front, signals: &Signals) -> Result<(), String> {
    let mut run = pin!(front.run());
    poll_fn(|cx| {
        if signals.poll_next(cx).is_ready() {
            front.stop();
        }
        run.as_mut().poll(cx)
    })
    .await
    .map_err(|e| e.to_string())
}

fn prepare(request: &ServeRequest, words: &Rc<Words>) -> Result<Prepared, String> {
    let options = HostOptions {
        seed: random_seed()?,
        io_uring: request.io_uring,
        idle_poll: request.idle_poll,
        ..HostOptions::default()
    };
    // The ports first: a port that is taken must not cost a recovery.
    let wanted = SocketAddr::new(request.bind, request.port);
    let mut listeners = vec![open_port(wanted)?];
    if request.portmap {
        listeners.push(open_port(SocketAddr::new(request.bind, PORTMAP_PORT))?);
    }
    let address = listeners[0].local_addr().map_err(|e| e.to_string())?;
    let host = Host::start(options).map_err(|e| e.to_string())?;
    let signals = Signals::listen_for_stop(&host).map_err(|e| e.to_string())?;
    let mut volumes: Vec<Volume> = Vec::new();
    let mut served: Vec<Served> = Vec::new();
    for share in &request.shares {
        let opened = open(request, share, &host, words).and_then(|(volume, uuid)| {
            let keys = Keys::of(uuid);
            if served.iter().any(|other| other.is_of(&keys)) {
                let image = share.image.display();
                return Err(format!("{image}: a copy of a volume that is served already"));
            }
            Ok((volume, keys))
        });
        match opened {
            Ok((volume, keys)) => {
                served.push(Served::of(&volume, keys));
                volumes.push(volume);
            }
            Err(why) => {
                for volume in &volumes {
                    let _ = host.rt().block_on(volume.close());
                }
                return Err(why);
            }
        }
    }
    let front = front_of(&host, served, request.exports.clone(), listeners, address.port())?;
    Ok(Prepared { host, signals, volumes, front, address })
}

/// The front end of a new server of volumes.
pub(super) fn front_of(
    host: &Host,
    served: Vec<Served>,
    exports: Vec<Export>,
    listeners: Vec<TcpListener>,
    port: u16,
) -> Result<Front, String> {
    let server = Rc::new(Server::new(random_bytes()?, served, exports));
    server.set_port(port);
    let bounds = Bounds::default();
    let connections = connections_possible(bounds.connections);
    Ok(Front::new(host, server, listeners, Bounds { connections, ..bounds }))
}

pub(super) fn open_port(address: SocketAddr) -> Result<TcpListener, String> {
    listen(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => ": choose another with --port, or 0 for a free one",
            std::io::ErrorKind::PermissionDenied => ": ports below 1024 need root",
            _ => "",
        };
        format!("{address}: {error}{hint}")
    })
}

/// Opens a volume, and returns its identity too.
fn open(
    request: &ServeRequest,
    share: &Share,
    host: &Host,
    words: &Rc<Words>,
) -> Result<(Volume, [u8; 16]), String> {
    let image = Path::new(&share.image);
    let layout = layout_of(image)?;
    let options = ImageOptions {
        read_only: request.read_only,
        direct: !request.buffered,
        ..ImageOptions::default()
    };
    let cache_bytes = request.cache_bytes;
    let settings = Settings { cache_bytes, read_only: request.read_only, ..Settings::default() };
    let settings = settings.served();
    let opened = open_beside(
        host,
        image,
        OpenOptions { image: options, settings, ..OpenOptions::of(layout) },
    )?;
    let twin_fs::Opened { volume, recovery } = opened;
    let about = share.image.display().to_string();
    if let Some(recovery) = recovery {
        words.say(Grade::Notice, &format!("{about} was not unmounted: {recovery}"));
    }
    let told = Rc::clone(words);
    volume.core().on_stop(move |error| {
        let text = format!("{about}: {error}: from now on the volume is read-only");
        told.say(Grade::Error, &text);
    });
    let uuid = identity(layout, &volume, &share.image)?;
    Ok((volume, uuid))
}

/// The identity of a volume, from which its handles are made.
pub(super) fn identity(
    layout: &'static dyn LayoutKind,
    volume: &Volume,
    image: &Path,
) -> Result<[u8; 16], String> {
    let properties = layout.properties(volume);
    let uuid = properties.iter().find(|property| property.name == "uuid");
    let uuid = uuid.and_then(|property| from_hex(&property.value));
    uuid.ok_or_else(|| {
        format!("{}: {} has no identity, which handles need", image.display(), layout.noun())
    })
}

fn from_hex(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.as_chunks::<2>().0.iter().map(|[a, b]| a << 4 | b).collect();
    bytes.try_into().ok()
}
