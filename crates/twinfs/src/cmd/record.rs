//! `twinfs record`: mirrors a directory and writes down what is done there.

use std::process::ExitCode;
use std::rc::Rc;

use twin_host::fuse::{Mount, MountOptions, Ready, SessionOptions};
use twin_host::mirror::Mirror;
use twin_host::{Host, HostOptions, Signals, Words};

use super::serving::{Place, finish, recorded, run_serving, serve_until_unmounted};
use super::{Outcome, absolute};
use crate::cli::Record;

pub(crate) fn run(mut args: Record) -> Outcome {
    for path in [&mut args.to, &mut args.source, &mut args.dir] {
        *path = absolute(path)?;
    }
    let about = args.dir.display().to_string();
    run_serving(args.foreground, &about, |ready, words| record(&args, ready, words))?;
    Ok(ExitCode::SUCCESS)
}

fn record(args: &Record, ready: Ready, words: &Rc<Words>) -> Result<(), String> {
    let (place, mirror) = match open(args, words) {
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
    // A mirror waits for nothing but the host: there is nothing to stop.
    serve_until_unmounted(place, recorder, SessionOptions::shared(), ready, |_| {}, close)
}

fn open(args: &Record, words: &Rc<Words>) -> Result<(Place, Mirror), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let mirror =
        Mirror::open(&args.source).map_err(|e| format!("{}: {e}", args.source.display()))?;
    let options =
        MountOptions { source: args.source.display().to_string(), ..MountOptions::default() };
    let mount = Mount::new(&args.dir, &options).map_err(|e| e.to_string())?;
    let (words, note) = (Rc::clone(words), String::new());
    Ok((Place { host, mount, signals, words, note }, mirror))
}
