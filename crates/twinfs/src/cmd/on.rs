//! `twinfs compare --on`: what was measured by replaying on this machine, beside its simulations.

use serde_json::{Value, json};
use twin_lab::Figures;
use twin_real::Wrong;
use twin_real::replay::{Measured, Replayed, Target};

use super::{Failure, usage};

/// What was measured beside what was simulated, in lines.
pub(super) fn words(all: &[Replayed], simulated: &[Figures]) -> String {
    let mut lines =
        vec!["\nMeasured by replaying on this machine, until everything was durable:".to_owned()];
    for (place, found) in all {
        let measured = match found {
            Ok(measured) => measured,
            Err(why) => {
                lines.push(format!("  {place:<16} could not take part: {why}"));
                continue;
            }
        };
        let Measured { name, finish_s, ops, failed, most_common, latency } = measured;
        let p99 = latency.p99_us;
        let mut line = format!("  {name:<16} {finish_s:>9.3} s  p99 {p99:.0} us");
        if *failed > 0 {
            line += &format!("  FAILED: {failed} of {ops} operations{most_common}");
        }
        lines.push(line);
        // A layout's name stands for the mount, and begins the configurations that simulate it.
        let of_place = |figures: &&Figures| {
            figures.config.split(':').next() == Some(&**name) && figures.failed == 0
        };
        for figures in simulated.iter().filter(of_place) {
            let Figures { config, finish_s: ours, .. } = figures;
            let error = (ours / finish_s - 1.0) * 100.0;
            lines.push(format!("    simulated      {ours:>9.3} s  {error:+.0}%  ({config})"));
        }
    }
    lines.join("\n")
}

/// True if all of the workload was done at a place.
pub(super) fn is_whole((_, found): &Replayed) -> bool {
    found.as_ref().is_ok_and(|measured| measured.failed == 0)
}

/// What was measured at a place, in the names of the simulated figures, with `on` for its name.
pub(super) fn object((place, found): &Replayed) -> Value {
    match found {
        Ok(Measured { finish_s, ops, failed, latency, .. }) => json!({
            "on": place, "ops": ops, "failed": failed, "finish_s": finish_s, "latency": latency,
        }),
        Err(why) => json!({ "on": place, "error": why }),
    }
}

/// Where the workload is replayed besides.
///
/// # Errors
/// The first name that is neither a directory nor a file system that can be made, with the nearest one.
pub(super) fn targets(places: &[String]) -> Result<Vec<Target>, Failure> {
    let target = |place: &String| {
        Target::parse(place).map_err(|wrong| match wrong {
            Wrong::Name(_) => usage(wrong),
            wrong => wrong.to_string().into(),
        })
    };
    places.iter().map(target).collect()
}
