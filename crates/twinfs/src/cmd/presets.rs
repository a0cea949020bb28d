//! `twinfs presets`: the named configurations, what each sets, and where it comes from.

use std::process::ExitCode;

use twin_lab::{Preset, presets, settings_help};
use twin_report::Report;
use twin_settings::SettingsError;

use super::{Interrupts, Outcome, Printer, say, usage};
use crate::cli::Presets;

pub(crate) fn run(args: &Presets, interrupts: &Interrupts) -> Outcome {
    if args.keys {
        say(settings_help().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|n| n == name);
    if let Some(name) = args.names.iter().find(|n| presets().iter().all(|p| p.name != **n)) {
        let known = presets().iter().map(|p| p.name);
        return Err(usage(SettingsError::unknown("preset", name, known)));
    }
    let chosen: Vec<_> = presets().iter().filter(|p| wanted(p.name)).collect();
    let all_sets = |preset: &Preset, between: &str| {
        let sets: Vec<String> = preset.sets.iter().map(|(k, v)| format!("{k}={v}")).collect();
        sets.join(between)
    };
    let objects = chosen.iter().map(|preset| {
        serde_json::json!({
            "preset": preset.name, "about": preset.about, "source": preset.source,
            "base": preset.base, "sets": all_sets(preset, ","),
        })
    });
    let one = |preset: &&Preset| {
        let base = preset.base.map(|b| format!("{b}, then ")).unwrap_or_default();
        let sets = all_sets(preset, " ");
        let sets = if sets.is_empty() { "the defaults".into() } else { sets };
        let Preset { name, about, source, .. } = preset;
        format!("{name}: {about}\n    from: {source}\n    sets: {base}{sets}")
    };
    let text = chosen.iter().map(one).collect::<Vec<_>>().join("\n");
    Printer::of(&args.output, interrupts)?.print(&Report::plain("Presets", text, objects))?;
    Ok(ExitCode::SUCCESS)
}
