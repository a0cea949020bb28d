//! `twinfs record`: mirrors a directory and writes down what is done there.

use std::process::ExitCode;
use std::rc::Rc;

use twin_host::fuse::{Mount, MountOptions, Ready, SessionOptions, in_background};
use twin_host::mirror::Mirror;
use twin_host::{Host, HostOptions, Signals};

use super::serving::{Place, finish, recorded, serve_until_unmounted};
use super::{Outcome, absolute};
use crate::cli::Record;

pub(crate) fn run(mut args: Record) -> Outcome {
    for path in [&mut args.to, &mut args.source, &mut args.dir] {
        *path = absolute(path)?;
    }
    if args.foreground {
        record(&args, Ready::nobody())?;
    } else {
        in_background(|ready| i32::from(record(&args, ready).is_err()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn record(args: &Record, ready: Ready) -> Result<(), String> {
    let (place, mirror) = match open(args) {
        Ok(opened) => opened,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let text = format!("what was done in {}", args.source.display());
    let recorder = match recorded(&place.host, mirror, &args.to, args.contents, &text) {
        Ok(recorder) => recorder,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let closing = Rc::clone(&recorder);
    let close = async move {
        let summary = finish(&closing, &args.to)?;
        if args.foreground {
            eprintln!("{summary}");
        }
        Ok(())
    };
    serve_until_unmounted(place, recorder, SessionOptions::shared(), ready, close)
}

fn open(args: &Record) -> Result<(Place, Mirror), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let mirror =
        Mirror::open(&args.source).map_err(|e| format!("{}: {e}", args.source.display()))?;
    let options =
        MountOptions { source: args.source.display().to_string(), ..MountOptions::default() };
    let mount = Mount::new(&args.dir, &options).map_err(|e| e.to_string())?;
    Ok((Place { host, mount, signals }, mirror))
}
