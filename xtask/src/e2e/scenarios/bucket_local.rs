//! A volume in a bucket with a journal and a cache on this machine: its server is away while a client syncs, and its daemon is
//! killed before the server is back.

use std::process::Command;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario};
use super::served;
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bucket-local",
    about: "a volume in a bucket with a journal and a cache: server away, daemon killed (by nightly bucket)",
    limit_s: (300, 900),
    run,
};

/// How long the server is away, in milliseconds.
const AWAY_MS: u64 = 3000;

fn run(bench: &Bench) -> Outcome {
    let mut server = served::server(bench)?;
    let mut rng = Rng::new(bench.seed);
    let mut volume =
        Volume::make_in(bench, &server.volume("local"), server.environment(), &["--size", "4G"])?;
    let (journal, cache) = (bench.dir.join("journal"), bench.dir.join("cache"));
    let (journal, cache) = (journal.display().to_string(), cache.display().to_string());
    let both = [
        ["--journal-file", journal.as_str(), "--journal-size", "64M"],
        ["--local-cache", cache.as_str(), "--local-cache-size", "64M"],
    ]
    .concat();
    volume.set_options(&both);
    volume.mount()?;
    let mut writer = Writer::new(volume.dir().join("work"), rng.next(), false)
        .map_err(|error| error.to_string())?;
    let mut while_away = 0;
    let kills = bench.size(3, 20);
    for kill in 1..=kills {
        let at = |why: String| format!("kill {kill}: {why}");
        server.kill();
        let (begun, before) = (Stopwatch::start(), writer.done);
        while begun.elapsed().as_millis() < u128::from(AWAY_MS) {
            writer.step().map_err(|error| at(format!("while the server was away: {error}")))?;
        }
        while_away += writer.done - before;
        let told = bench.run(Command::new(&bench.program).arg("stat").arg(volume.dir()))?;
        if !told.contains("that are on this machine alone") {
            return Err(at(format!("stat does not say what the journal has: {told}")).into());
        }
        volume.kill9();
        server.restart().map_err(at)?;
        if kill == 1 {
            volume.set_options(&[]);
            match volume.mount() {
                Err(why) if why.contains("with the journal") => {}
                Err(why) => return Err(at(format!("without the journal: {why}")).into()),
                Ok(_) => return Err(at("mounted without the journal".into()).into()),
            }
            volume.set_options(&both);
        }
        volume.mount().map_err(at)?;
        writer.verify().map_err(at)?;
        pause_ms(rng.below(500) as u64);
    }
    if while_away == 0 {
        return Err("nothing was synced while the server was away".to_string().into());
    }
    // Closed, nothing is left in the journal: the volume is whole without it.
    volume.set_options(&[]);
    volume.remount()?;
    writer.verify()?;
    volume.umount_and_check()?;
    Ok(format!(
        "{while_away} operations fsynced while the server was away, {kills} kills, all kept"
    ))
}
