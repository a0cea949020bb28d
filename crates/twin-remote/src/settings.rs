//! The settings of clients, network and server, and how a configuration is written that has them.

use twin_nfs::client::ClientSettings;
use twin_nfs::lease::Terms;
use twin_rt::{MICROS, MILLIS, Nanos, SECS};
use twin_settings::{Key, SettingsError, Unit, grammar};
use twin_sim::network::NetworkSettings;

/// A network before a volume, and what is at its two ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// Machines with clients.
    pub machines: u64,
    /// The server's processor time for a call, besides that of its operations.
    pub call_ns: Nanos,
    /// The terms of the server's leases, for clients that use them.
    pub leases: Terms,
    /// The clients.
    pub client: ClientSettings,
    /// The network.
    pub network: NetworkSettings,
}

impl Default for Remote {
    fn default() -> Remote {
        let (client, network) = (ClientSettings::default(), NetworkSettings::default());
        let leases = Terms::default();
        Remote { machines: 1, call_ns: 10 * MICROS, leases, client, network }
    }
}

const OWN: &[Key<Remote>] = &[
    Key::new("machines", "machines with clients", Unit::number(1, 10_000), |r| {
        (&mut r.machines).into()
    }),
    Key::new(
        "call",
        "processor time of the server for a call",
        Unit::Time(MICROS, 100 * MILLIS),
        |r| (&mut r.call_ns).into(),
    ),
    Key::new(
        "lease-term",
        "term of the server's leases, with consistency=lease; 5s to 60s are usual: others wait up to a term \
         for a client that is gone, and shorter terms are renewed more often",
        Unit::Time(SECS, 3600 * SECS),
        |r| (&mut r.leases.term_ns).into(),
    ),
    Key::new(
        "lease-slack",
        "time that a write at the end of its lease gets for the next one",
        Unit::Time(SECS, 3600 * SECS),
        |r| (&mut r.leases.slack_ns).into(),
    ),
    Key::new(
        "leases",
        "most leases of the server; beyond that the oldest is recalled",
        Unit::number(1, 1 << 24),
        |r| (&mut r.leases.leases_max).into(),
    ),
];

/// The keys with help and values: name, description, value.
pub fn keys(remote: &Remote) -> Vec<(&'static str, &'static str, String)> {
    let client = twin_nfs::client::KEYS.iter();
    let network = twin_sim::network::KEYS.iter();
    let own = OWN.iter().map(|key| (key.name, key.about, key.text(remote)));
    own.chain(client.map(|key| (key.name, key.about, key.text(&remote.client))))
        .chain(network.map(|key| (key.name, key.about, key.text(&remote.network))))
        .collect()
}

/// Help on the keys.
pub fn help() -> String {
    let lines = keys(&Remote::default());
    let lines =
        lines.iter().map(|(name, about, value)| format!("  {name:<20} {about} [{value}]\n"));
    let title = "Keys of clients, network and server, behind nfs(volume): as in nfs(lfs):biods=8";
    format!("\n{title}:\n{}", lines.collect::<String>())
}

/// Divides `nfs(volume):settings` into the volume's text and the settings; `None` if it is no such text.
///
/// # Errors
/// If the parentheses do not match or nest too deep, something else follows them, or the volume is
/// behind a network itself: a server has its volumes, not those of another server.
pub fn split(text: &str) -> Result<Option<(&str, &str)>, SettingsError> {
    let Some((inner, own)) = divide(text)? else { return Ok(None) };
    match divide(inner)? {
        None => Ok(Some((inner, own))),
        Some(_) => Err(SettingsError::new("nfs(nfs(...)): there is one network before a volume")),
    }
}

fn divide(text: &str) -> Result<Option<(&str, &str)>, SettingsError> {
    grammar::check_depth(text)?;
    let Some(rest) = text.trim().strip_prefix("nfs").map(str::trim_start) else { return Ok(None) };
    if rest.is_empty() || rest.starts_with(':') {
        return Err(SettingsError::new("nfs needs the volume behind it: nfs(lfs:disk=hp97560)"));
    }
    let Some(rest) = rest.strip_prefix('(') else { return Ok(None) };
    let mut depth = 1;
    for (at, letter) in rest.char_indices() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            let own = rest[at + 1..].trim();
            return match own.strip_prefix(':') {
                Some(own) => Ok(Some((&rest[..at], own))),
                None if own.is_empty() => Ok(Some((&rest[..at], ""))),
                None => Err(SettingsError::new(format!(
                    "{text:?}: settings of clients and network follow a colon: nfs(lfs):biods=8"
                ))),
            };
        }
    }
    Err(SettingsError::new(format!("{text:?}: a parenthesis is not closed")))
}

/// The text of a configuration with the text of its volume replaced by `change` of it.
pub fn inner_of(text: &str, change: impl FnOnce(&str) -> String) -> String {
    match split(text) {
        Ok(Some((inner, ""))) => format!("nfs({})", change(inner)),
        Ok(Some((inner, own))) => format!("nfs({}):{own}", change(inner)),
        _ => change(text),
    }
}

impl Remote {
    /// Parses settings.
    ///
    /// # Errors
    /// If a key or value does not exist; the message lists those that do.
    pub fn parse(text: &str) -> Result<Remote, SettingsError> {
        let mut remote = Remote::default();
        for setting in grammar::settings(text)? {
            let (key, value) = (setting.key, setting.value);
            if let Some(known) = OWN.iter().find(|known| known.name == key) {
                known.set(&mut remote, value)?;
            } else if twin_nfs::client::KEYS.iter().any(|known| known.name == key) {
                twin_settings::set(&mut remote.client, twin_nfs::client::KEYS, key, value)?;
            } else if twin_sim::network::KEYS.iter().any(|known| known.name == key) {
                twin_settings::set(&mut remote.network, twin_sim::network::KEYS, key, value)?;
            } else {
                let known = keys(&remote).into_iter().map(|(name, ..)| name);
                return Err(SettingsError::unknown("setting of a network's client", key, known));
            }
        }
        Ok(remote)
    }
}
