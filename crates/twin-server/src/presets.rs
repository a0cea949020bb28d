//! The servers that come with the program, by name.

use twin_settings::SettingsError;

/// A server that comes with the program.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// All of them.
pub const PRESETS: &[Preset] = &[Preset {
    name: "cut-and-paste",
    about: "the Sprite server of Cut-and-Paste File Systems 1996: 10 disks on 3 busses, 14 file systems",
    text: include_str!("cut-and-paste.toml"),
}];

/// The server with this name.
///
/// # Errors
/// If there is none, with the nearest name.
pub fn preset(name: &str) -> Result<&'static Preset, SettingsError> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.ok_or_else(|| SettingsError::unknown("server", name, PRESETS.iter().map(|p| p.name)))
}
