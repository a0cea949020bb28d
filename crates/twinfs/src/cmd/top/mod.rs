//! `twinfs top`: a log while it is written and cleaned, of a bare volume, a mount or a simulation.

mod screen;
mod simulation;

use std::process::ExitCode;

use twin_clean::volume::{Volume, VolumeGeometry, workload};
use twin_clean::{placement, victim};
use twin_cli::{Outcome, usage};
use twin_host::real_clock;
use twin_lab::Status;
use twin_lab::segment_map::frame;
use twin_mount::input::{Wanted, must_be};

use self::screen::Screen;
use crate::cli::Top;

/// Blocks of a bare volume.
const BLOCKS: u32 = 131_072;

pub(crate) fn run(args: &Top) -> Outcome {
    let is_bare = args.mount.is_none() && args.config.is_none() && args.trace.is_none();
    if !is_bare && args.blocks.is_some() {
        return Err(usage("--blocks is for bare volumes"));
    }
    if let Some(status) = &args.mount {
        return watch(args, status);
    }
    if args.config.is_some() || args.trace.is_some() {
        return simulation::run(args);
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
    let geometry = geometry.check_for(placement).map_err(usage)?;
    let seed = args.seed.unwrap_or(1);
    let setting = geometry.setting(seed);
    let mut volume = Volume::new(&geometry, placement.make(&setting), victim.make(&setting));
    let mut writes = workload.start(blocks, seed);
    let screen = Screen::of(args.plain);
    let clock = real_clock();
    let (mut before, end) = (volume.totals(), (f64::from(blocks) * args.volumes) as u64);
    while volume.totals().user_writes < end {
        let left = end - volume.totals().user_writes;
        for _ in 0..args.step.min(left) {
            let block = writes.next_block();
            volume.request(block, 1);
            volume.write(block);
        }
        let picture = frame(&volume, &before, screen.look());
        before = volume.totals();
        screen.show(&picture)?;
        if let Some(rate) = args.rate {
            wait_until(&clock, before.user_writes as f64 / rate);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How often a mount is looked at, in seconds, and how long its file may stand still.
const LOOK_S: f64 = 0.5;
const GONE_S: f64 = 5.0;

/// Shows a mount for as long as its status changes.
fn watch(args: &Top, path: &std::path::Path) -> Outcome {
    let screen = Screen::of(args.plain);
    let clock = real_clock();
    let read = || -> Result<Status, String> {
        let in_file = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        must_be(path, Wanted::Status)?;
        let text = twin_host::text_of_file(path)?;
        serde_json::from_str(&text).map_err(|e| in_file(&e))
    };
    let (mut before, mut shown, mut changed_s) = (read()?, 0, 0.0);
    screen.show(&before.frame(&before, screen.look()))?;
    while args.count.is_none_or(|count| shown + 1 < count) && clock() - changed_s < GONE_S {
        wait_until(&clock, clock() + LOOK_S);
        let status = read()?;
        if status.at_ns != before.at_ns {
            screen.show(&status.frame(&before, screen.look()))?;
            (before, changed_s, shown) = (status, clock(), shown + 1);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn wait_until(clock: &impl Fn() -> f64, seconds: f64) {
    let left = seconds - clock();
    if left > 0.0 {
        // A program may wait; only the core may not.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(std::time::Duration::from_secs_f64(left.min(3600.0)));
    }
}
