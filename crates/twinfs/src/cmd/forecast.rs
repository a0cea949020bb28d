//! `twinfs forecast`: what the next hours do to a volume, if they are in kind as the recorded ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use twin_age::VolumeMap;
use twin_age::again::{Told, Window};
use twin_ageing::forecast::{Outlook, Tried, forecast_changes, next_period};
use twin_ageing::fork::{Closed, Twin};
use twin_ageing::map_of_platter;
use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer, usage};
use twin_fs::LayoutKind;
use twin_host::Interrupts;
use twin_lab::{Config, Figures, Run, SimulateError, Workload, compare};
use twin_mount::client::{FrozenVolume, MountClient};
use twin_mount::image::layout_of;
use twin_mount::image_volume::{platter_of, run_on_image};
use twin_settings::value::nanos;
use twin_sim::Platter;
use twin_verdict::Trust;

use super::compare::machine_file;
use super::workload::of_file;
use crate::cli::{Forecast, Pace};

/// The most memory in which a mount keeps what is overwritten while its state is read.
const KEEP_BYTES: u64 = 256 << 20;

/// A volume as it is now, and the recording that led to it.
struct State {
    kind: &'static dyn LayoutKind,
    platter: Platter,
    map: VolumeMap,
    recording: PathBuf,
    /// The number of requests of the recording until now, if it goes on.
    requests: Option<u64>,
    /// The mount's memory for blocks, in bytes.
    cache_bytes: Option<u64>,
}

pub(crate) fn run(args: &Forecast, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let last_ns = args.last.as_deref().map(|text| nanos(text, twin_rt::SECS)).transpose();
    let last_ns = last_ns.map_err(|error| usage(format!("--last: {error}")))?;
    // Before a mount is frozen.
    if let Some(text) = &args.config {
        let config = Config::parse(text).map_err(usage)?;
        args.tries.iter().try_for_each(|setting| tried(&config, setting).map(drop))?;
    }
    let state = state(args)?;
    let base = config(args, &state)?;
    let recording = of_file(&state.recording, None)?;
    let window = Window { last_ns, requests: state.requests };
    let (next, told) = next_period(&recording, window, &state.map)
        .map_err(|error| format!("{}: {error}", state.recording.display()))?;
    if told.requests == 0 {
        let name = state.recording.display();
        return Err(format!("{name}: there is nothing in it that could be repeated").into());
    }
    let (now, tried) = simulated(args, &state, base.clone(), (&next, told))?;
    for one in &tried {
        if let Err(why) = &one.figures {
            twin_host::note!("twinfs: {}: {why}", one.setting);
        }
    }
    let outlook = Outlook { now: &now, tried: &tried, told: &told };
    printer.print(&outlook.report(&Trust::of([&base])))?;
    Ok(if now.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the command line names: a mount, or an image with a recording.
fn state(args: &Forecast) -> Result<State, Failure> {
    let name = args.what.display();
    if args.what.is_dir() {
        let mount = MountClient::at(&args.what)?;
        let mount = mount.ok_or_else(|| format!("{name}: no volume of twinfs is mounted there"))?;
        return Ok(of_mount(mount, args.trace.as_deref()).map_err(|why| format!("{name}: {why}"))?);
    }
    let Some(recording) = args.trace.clone() else {
        return Err(usage("an image needs the recording that led to it: give --trace too"));
    };
    let kind = layout_of(&args.what)?;
    let platter = platter_of(&args.what).map_err(|why| format!("{name}: {why}"))?;
    let map = map_of_platter(kind, &platter).map_err(|why| format!("{name}: {why}"))?;
    Ok(State { kind, platter, map, recording, requests: None, cache_bytes: None })
}

/// The state of a mount, forked in memory, and its recording until that instant.
fn of_mount(mount: MountClient, trace: Option<&Path>) -> Result<State, String> {
    let text = |error: SimulateError| error.to_string();
    let _bar = Progress::waiting("the volume is forked");
    let FrozenVolume { host, kind, device, cache_bytes, recorded, .. } =
        mount.freeze(KEEP_BYTES)?;
    let (recording, requests) = match (trace, recorded) {
        (Some(path), _) => (path.to_owned(), None),
        (None, Some((path, requests))) => (path, Some(requests)),
        (None, None) => {
            let why =
                "it is not recorded: mount it with --record FILE, or name a recording with --trace";
            return Err(why.into());
        }
    };
    let closed = Closed::of(host.rt(), kind, device).map_err(text)?;
    let map = closed.map().map_err(text)?;
    let platter =
        Twin::of(&closed, &mut |_, _| {}).and_then(|twin| twin.platter()).map_err(text)?;
    Ok(State { kind, platter, map, recording, requests, cache_bytes: Some(cache_bytes) })
}

/// The configuration of now, without its volume.
fn config(args: &Forecast, state: &State) -> Result<Config, Failure> {
    let text = match &args.config {
        Some(text) => text.clone(),
        None => {
            let cache = state.cache_bytes.map(|bytes| format!("cache={bytes}"));
            let disk = args.on.as_ref().map(|disk| format!("disk={disk}"));
            let settings: Vec<String> = cache.into_iter().chain(disk).collect();
            let joint = if settings.is_empty() { "" } else { ":" };
            format!("{}{joint}{}", state.kind.name(), settings.join(","))
        }
    };
    let config = Config::parse(&text).map_err(usage)?;
    Ok(match args.machine.as_deref().map(machine_file).transpose()? {
        Some(machine) => config.on_machine(Arc::new(machine)),
        None => config,
    })
}

/// A configuration with another setting.
fn tried(base: &Config, setting: &str) -> Result<Config, Failure> {
    base.changed("", setting).map_err(|error| usage(format!("--try {setting}: {error}")))
}

/// The next period with the settings of now, and with others.
fn simulated(
    args: &Forecast,
    state: &State,
    base: Config,
    (next, told): (&Workload, Told),
) -> Result<(Figures, Vec<Tried>), Failure> {
    let pace = Pace::of(args.pace, next, None).map_err(usage)?;
    let settings = match (args.no_tries, args.tries.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => forecast_changes(&base),
        (false, false) => args.tries.clone(),
    };
    let bar = Progress::of("operations simulated", (settings.len() as u64 + 1) * told.requests);
    let name = args.what.display().to_string();
    let on_volume = |config: Config| {
        let (run, _) = run_on_image(&config, &name, state.kind, &state.platter)?;
        Ok::<_, String>(Run { steps: Some(super::steps(&bar)), ..run })
    };
    let changed =
        settings.iter().map(|setting| tried(&base, setting)).collect::<Result<Vec<_>, _>>()?;
    let runs = [base.clone()].into_iter().chain(changed).map(on_volume);
    let runs = runs.collect::<Result<Vec<_>, String>>()?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut results = compare(&runs, next, pace, threads, &|_, _| {}).into_iter();
    bar.finish();
    let now = results.next().ok_or_else(|| "nothing was simulated".to_string())?;
    let now = now.map_err(|error| error.to_string())?;
    let tried = settings.into_iter().zip(results).map(|(setting, result)| Tried {
        setting,
        figures: result.map_err(|error| error.to_string()),
    });
    Ok((now, tried.collect()))
}
