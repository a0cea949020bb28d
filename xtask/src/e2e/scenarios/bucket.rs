//! A volume in a bucket whose server and whose daemon are killed, that two want to write, and that nobody uses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario};
use super::served;
use crate::clock::pause_ms;
use crate::object_server::Server;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bucket",
    about: "a volume in a bucket: server and daemon killed, a second writer, no use (by nightly bucket)",
    limit_s: (600, 1800),
    run,
};

/// How long a mount is left alone before it must be silent, and for how long it then must be, in milliseconds.
const IDLE_MS: (u64, u64) = (60_000, 15_000);

fn run(bench: &Bench) -> Outcome {
    let mut server = served::server(bench)?;
    let mut rng = Rng::new(bench.seed);
    let mut volume =
        Volume::make_in(bench, &server.volume("first"), server.environment(), &["--size", "4G"])?;
    volume.mount()?;
    let dir = volume.dir().join("work");
    let mut writer = Writer::new(dir, rng.next(), false).map_err(|error| error.to_string())?;
    let kills = bench.size(3, 50);
    for kill in 1..=kills {
        let at = |why: String| format!("kill {kill} of the server: {why}");
        work_while(&mut writer, || {
            pause_ms(100 + rng.below(400) as u64);
            server.kill();
            pause_ms(rng.below(1500) as u64);
            server.restart()?;
            // Longer than the pauses after which a request is repeated.
            pause_ms(500);
            Ok(())
        })
        .map_err(at)?;
    }
    writer.verify()?;
    volume.remount()?;
    writer.verify()?;
    for kill in 1..=kills {
        let at = |why: String| format!("kill {kill} of both: {why}");
        let _ = work_while(&mut writer, || {
            pause_ms(100 + rng.below(700) as u64);
            server.kill();
            volume.kill9();
            Ok(())
        });
        server.restart().map_err(at)?;
        volume.mount().map_err(at)?;
        writer.verify().map_err(at)?;
    }
    volume.remount()?;
    writer.verify()?;
    let idle = idle(bench, &server)?;
    let replaced = two_writers(bench, &server, &mut volume, &mut writer)?;
    Ok(format!(
        "{kills} kills of the server, {kills} of both, {} fsynced operations kept, {idle}, {replaced}",
        writer.done
    ))
}

/// Lets a client work until `meanwhile` has ended. Its operations must succeed until then, however long they wait.
fn work_while(
    writer: &mut Writer,
    mut meanwhile: impl FnMut() -> Result<(), String>,
) -> Result<(), String> {
    let enough = AtomicBool::new(false);
    let work = || {
        while !enough.load(Ordering::SeqCst) {
            writer.step()?;
        }
        Ok::<(), std::io::Error>(())
    };
    thread::scope(|scope| {
        let working = scope.spawn(work);
        let done = meanwhile();
        enough.store(true, Ordering::SeqCst);
        let worked = working.join().map_err(|_| "the client panicked".to_string())?;
        done?;
        worked.map_err(|error| format!("the client got: {error}"))
    })
}

/// A mount that nobody uses makes no requests.
fn idle(bench: &Bench, server: &Server) -> Result<String, String> {
    let (before_ms, silent_ms) = if bench.full { IDLE_MS } else { (IDLE_MS.0 / 4, IDLE_MS.1 / 5) };
    pause_ms(before_ms);
    let before = server.requests();
    pause_ms(silent_ms);
    match server.requests() - before {
        0 if before > 0 => Ok("no request when idle".into()),
        0 => Err("the server's log shows no requests at all".into()),
        some => Err(format!("{some} requests in {silent_ms} ms without use")),
    }
}

/// A second writer is refused; one that takes the volume over has all that was acknowledged, and the first can write
/// no more.
fn two_writers(
    bench: &Bench,
    server: &Server,
    first: &mut Volume<'_>,
    writer: &mut Writer,
) -> Result<String, String> {
    let mut second = Volume::beside(bench, &server.volume("first"), server.environment(), "mnt-2")?;
    match second.mount() {
        Ok(_) => return Err("a second mount was not refused".into()),
        Err(why) if why.contains("in use by") => {}
        Err(why) => return Err(format!("a second mount was refused for another reason: {why}")),
    }
    second.set_options(&["--take-over"]);
    // The first works meanwhile, and is told that it has been replaced.
    let taken = work_while(writer, || {
        pause_ms(300);
        second.mount()?;
        pause_ms(1000);
        Ok(())
    });
    match taken {
        Err(why) if why.starts_with("the client got") => {}
        Err(why) => return Err(format!("taken over: {why}")),
        Ok(()) => return Err("the first writer goes on after it was replaced".into()),
    }
    writer.move_to(second.dir().join("work"));
    writer.verify()?;
    first.kill9();
    second.umount_and_check()?;
    Ok("a replaced writer told so".into())
}
