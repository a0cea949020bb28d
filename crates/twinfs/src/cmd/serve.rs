//! `twinfs serve`: opens volumes and serves them over NFS until it is told to stop.

use std::process::ExitCode;
use std::rc::Rc;

use twin_cli::{Outcome, say, usage};
use twin_host::fuse::{Ready, in_background_with_note};
use twin_host::{Budget, Grade, Words, take_limits, take_signals};
use twin_mount::nfs::{ServeRequest, exports, serve_volumes, shares};

use crate::cli::Serve;

pub(crate) fn run(args: Serve) -> Outcome {
    let shares = shares(&args.images).map_err(usage)?;
    let exports = exports(&shares, &args.exports).map_err(usage)?;
    let about = shares.iter().map(|s| s.image.display().to_string()).collect::<Vec<_>>().join(", ");
    let caches = args.cache.0.saturating_mul(shares.len() as u64);
    let request = ServeRequest {
        shares,
        exports,
        bind: args.bind,
        port: args.port,
        portmap: args.portmap,
        read_only: args.read_only,
        cache_bytes: args.cache.0,
        buffered: args.buffered,
        io_uring: !args.no_io_uring,
        idle_poll: args.idle_poll,
    };
    take_limits(Budget::usual(caches).all())?;
    if args.foreground {
        take_signals(true);
        let words = Rc::new(Words::to_terminal(&about));
        serve_volumes(&request, Ready::foreground(), &words, |line| say(line))?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = Rc::new(Words::to_log(&about));
    let (_, note) = in_background_with_note(|ready| {
        take_signals(false);
        match serve_volumes(&request, ready, &words, |_| Ok(())) {
            Ok(()) => 0,
            Err(why) => {
                words.say(Grade::Error, &why);
                1
            }
        }
    })?;
    say(note)?;
    Ok(ExitCode::SUCCESS)
}
