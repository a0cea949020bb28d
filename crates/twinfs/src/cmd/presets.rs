//! `twinfs presets`: the named configurations, what each sets, and where it comes from.

use std::process::ExitCode;

use twin_lab::{presets, settings_help};

use super::{Outcome, say};
use crate::cli::Presets;

pub(crate) fn run(args: &Presets) -> Outcome {
    if args.keys {
        say(settings_help().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|n| n == name);
    if let Some(name) = args.names.iter().find(|n| presets().iter().all(|p| p.name != **n)) {
        let known: Vec<_> = presets().iter().map(|p| p.name).collect();
        return Err(format!("there is no preset {name:?}; choose from: {}", known.join(", ")));
    }
    for preset in presets().iter().filter(|p| wanted(p.name)) {
        let sets: Vec<String> = preset.sets.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let base = preset.base.map(|b| format!("{b}, then ")).unwrap_or_default();
        let sets = if sets.is_empty() { "the defaults".into() } else { sets.join(" ") };
        say(format!(
            "{}: {}\n    from: {}\n    sets: {base}{sets}",
            preset.name, preset.about, preset.source
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
