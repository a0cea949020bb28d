//! The power failure: any moment since the volume was opened, and what each write in doubt came to.

use serde_json::{Value, json};
use twin_rt::Time;
use twin_sim::Platter;
use twin_sim::faults::{CrashPoint, WriteLog, WriteOutcome};

use super::world::{State, World};
use crate::volume::Machine;

fn recorded(world: &World) -> Result<(&Machine, &WriteLog), String> {
    let machine = world.machine()?;
    let log = machine.log.as_ref().ok_or("this volume keeps no writes: make it with record=yes")?;
    Ok((machine, log))
}

/// The point with this number, or the last one, and how many there are.
fn chosen(log: &WriteLog, number: Option<u64>) -> Result<(CrashPoint, u64, u64), String> {
    let (mut count, mut found) = (0, None);
    for point in log.crash_points() {
        if number.is_none_or(|number| number == count) {
            found = Some((count, point));
        }
        count += 1;
    }
    let (number, point) = found.ok_or_else(|| format!("there are only {count} points"))?;
    Ok((point, number, count))
}

/// What is certain and what is in doubt at a point.
pub(super) fn point(world: &World, number: Option<u64>) -> Result<Value, String> {
    let (machine, log) = recorded(world)?;
    let (point, number, count) = chosen(log, number)?;
    let sector = u64::from(point.state.sector());
    let doubt: Vec<Value> = point
        .state
        .unstable_writes()
        .iter()
        .map(|one| {
            json!({
                "at": one.at,
                "len": one.len,
                "sectors": one.len / sector,
                "reported": one.reported,
                "what": machine.regions.name(one.at, one.len),
            })
        })
        .collect();
    let line = point.mark.unwrap_or(0) as usize;
    Ok(json!({
        "ok": true,
        "points": count,
        "point": number,
        "time_ns": point.time.0,
        "lines_done": line,
        "line": world.history.iter().filter(|line| !line.starts_with("remount")).nth(line),
        "in_doubt": doubt,
    }))
}

/// The platter after a power failure at a point. Each letter of `outcomes` stands for a write in doubt: `L` lost, `W`
/// whole, `T` torn (the first half of its sectors); what has no letter is lost.
pub(super) fn cut(
    world: &World,
    number: Option<u64>,
    outcomes: &str,
) -> Result<(Platter, Time), String> {
    if let State::Off(..) = world.state {
        return Err("the power is off already".into());
    }
    let (_, log) = recorded(world)?;
    let (point, _, _) = chosen(log, number)?;
    let sector = u64::from(point.state.sector());
    let mut chosen = Vec::new();
    for (letter, write) in outcomes.chars().zip(point.state.unstable_writes()) {
        chosen.push(match letter {
            'L' => WriteOutcome::Lost,
            'W' => WriteOutcome::Whole,
            'T' => WriteOutcome::sectors(0, (write.len / sector / 2).max(1)),
            other => return Err(format!("{other:?}: an outcome is L, W or T")),
        });
    }
    Ok((point.state.with(&chosen), point.time))
}
