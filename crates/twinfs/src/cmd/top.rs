//! `twinfs top`: a log while it is written and cleaned, of a bare volume, a mount or a simulation.

use std::path::Path;
use std::process::ExitCode;

use twin_clean::volume::{VolumeGeometry, workload};
use twin_clean::{placement, victim};
use twin_cli::{Outcome, say, usage};
use twin_lab::{Config, Status};
use twin_mount::input::{Wanted, must_be};
use twin_top::{Bare, Screen, Simulated, watch};

use super::workload::{Chosen, chosen};
use crate::cli::{Pace, Top};

/// Blocks of a bare volume.
const BLOCKS: u32 = 131_072;

pub(crate) fn run(args: &Top) -> Outcome {
    let is_bare = args.mount.is_none() && args.config.is_none() && args.trace.is_none();
    if !is_bare && args.blocks.is_some() {
        return Err(usage("--blocks is for bare volumes"));
    }
    if let Some(status) = &args.mount {
        return of_mount(args, status);
    }
    if args.config.is_some() || args.trace.is_some() {
        return simulated(args);
    }
    if let Some(option) = for_simulations(args) {
        return Err(usage(format!("{option} is for simulations: give --config or --trace too")));
    }
    bare(args)
}

/// The first option that a bare volume would ignore.
fn for_simulations(args: &Top) -> Option<&'static str> {
    let given = [
        ("--slow", args.slow.is_some()),
        ("--every", args.every.is_some()),
        ("--accesses", args.accesses),
        ("--by-hand", args.by_hand),
        ("--pace", args.pace.is_some()),
        ("--speed", args.speed.is_some()),
        ("--count", args.count.is_some()),
    ];
    given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
}

/// Shows a bare volume.
fn bare(args: &Top) -> Outcome {
    let placement = placement::REGISTRY.get(&args.placement).map_err(|e| e.to_string())?;
    let victim = victim::REGISTRY.get(&args.victim).map_err(|e| e.to_string())?;
    let workload = workload::parse(
        args.workload.as_deref().unwrap_or(workload::REGISTRY.default_entry().name),
    )
    .map_err(usage)?;
    let blocks = args.blocks.unwrap_or(BLOCKS);
    let geometry = VolumeGeometry::of_working_set(blocks).map_err(usage)?;
    let bare = Bare {
        geometry: geometry.check_for(placement).map_err(usage)?,
        placement,
        victim,
        workload,
        blocks,
        volumes: args.volumes,
        seed: args.seed.unwrap_or(1),
        step: args.step,
        rate: args.rate,
    };
    bare.show(&Screen::of(args.plain))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a mount for as long as its status changes.
fn of_mount(args: &Top, path: &Path) -> Outcome {
    let read = || -> Result<Status, String> {
        must_be(path, Wanted::Status)?;
        let text = twin_host::text_of_file(path)?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    watch(&read, args.count, &Screen::of(args.plain))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a simulated run.
fn simulated(args: &Top) -> Outcome {
    let config = Config::parse(args.config.as_deref().unwrap_or("lfs"));
    let config = config.map_err(usage)?;
    if !config.layout.is_log() {
        let name = &config.name;
        return Err(usage(format!(
            "{name}: has no log that could be shown; choose a configuration of lfs"
        )));
    }
    if args.seed.is_some() && args.workload.is_none() {
        return Err(usage("--seed is for generated workloads: give --workload too"));
    }
    let trace = args.trace.as_deref();
    let Chosen { workload, is_cut, .. } =
        chosen(trace, None, args.workload.as_deref(), args.seed.unwrap_or(1))?;
    let pace = Pace::of(args.pace, &workload, args.speed).map_err(usage)?;
    let place = trace.map_or_else(|| config.name.clone(), |path| path.display().to_string());
    let Top { slow, every, accesses, by_hand, count, .. } = *args;
    let how = Simulated { slow, every, accesses, by_hand, count };
    if let Some(figures) = how.show(&config, &workload, pace, &place, Screen::of(args.plain))? {
        let cost = figures.log.write_cost.map_or("-".into(), |cost| format!("{cost:.2}"));
        say(format!(
            "{} operations in {:.3} s; write cost {cost}, {} segments cleaned",
            figures.ops, figures.span_s, figures.log.cleaned_segments
        ))?;
    }
    Ok(if is_cut { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
