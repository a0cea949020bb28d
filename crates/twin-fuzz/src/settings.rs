//! Settings: the grammar, the notation of values, configurations, workloads.

use twin_lab::Config;
use twin_lab::layouts::LAYOUTS;
use twin_settings::{Named, grammar, value};

use crate::Target;

/// What users write as text.
pub(crate) const SETTINGS: Target =
    Target { name: "settings", about: "settings as users write them", run, seeds };

fn run(data: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(data);
    values(text);
    let Ok(named) = Named::parse(text) else { return false };
    let Ok(settings) = grammar::settings(named.settings) else { return false };
    for setting in &settings {
        assert!(!setting.key.is_empty() && setting.key == setting.key.trim());
        values(setting.value);
        for kind in LAYOUTS {
            let mut config = kind.config();
            let _ = config.set(setting.key, setting.value);
            if config.set_for_open(setting.key, setting.value).is_ok() {
                reads_its_own_text(&*config, *kind);
            }
        }
    }
    // A configuration that is read is read again from its own name.
    if let Ok(config) = Config::parse(text) {
        assert!(Config::parse(&config.name).is_ok(), "{text:?}");
    }
    true
}

/// What a volume's settings print they read back: a mounted run is repeated from it.
fn reads_its_own_text(config: &dyn twin_fs::LayoutConfig, kind: &dyn twin_fs::LayoutKind) {
    let text = config.text();
    let mut again = kind.config();
    for setting in grammar::settings(&text).unwrap() {
        again.set_for_open(setting.key, setting.value).unwrap();
    }
    assert_eq!(again.text(), text);
}

/// Every notation of a value; what is printed is read back.
fn values(text: &str) {
    if let Ok(bytes) = value::bytes(text) {
        assert_eq!(value::bytes(&value::bytes_text(bytes)), Ok(bytes));
    }
    if let Ok(nanos) = value::nanos(text, 1_000_000_000) {
        assert_eq!(value::nanos(&value::nanos_text(nanos), 1), Ok(nanos));
    }
    let _ = (value::number(text), value::percent(text), value::decimal(text), value::yes_no(text));
    let _ = value::list::<3>(text, "a/b/c");
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "lfs:disk=hp97560,cache=8M,flush-age=500ms",
        "ffs(ordering=journal,disk=7200rpm)",
        "lfs-classic:segment=512K",
        "lfs:cleaner=cost-benefit,when=threshold",
        "nfs(volume=lfs(cache=8M,disk=hp97560),clients=4)",
        "x:a=1,,b=80%,c=0.99,d=5400/58/19,e=yes,f=4_000",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
