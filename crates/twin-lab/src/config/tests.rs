use super::*;

#[test]
fn every_preset_parses() {
    for preset in presets() {
        Config::parse(preset.name).unwrap();
    }
}

#[test]
fn a_configuration_s_own_settings_come_after_shared_ones() {
    let config = Config::parse_with("size=256M,cache=16M", "lfs:cache=8M").unwrap();
    assert_eq!((config.size, config.settings.cache_bytes), (Some(256 << 20), 8 << 20));
    assert_eq!(config.name, "lfs:cache=8M");
    assert!(Config::parse_with("segment=512K", "ffs").is_err());
}

#[test]
fn settings_are_applied() {
    let config = Config::parse("lfs:disk=hp97560,cache=8M,segment=512K,victim=greedy").unwrap();
    assert_eq!(config.disk.name, "hp97560");
    assert_eq!(config.settings.cache_bytes, 8 << 20);
    let keys = config.of_layout.keys();
    let value = |name| keys.iter().find(|key| key.name == name).unwrap().value.clone();
    assert_eq!((&*value("segment"), &*value("victim")), ("512K", "greedy"));
    let ssd = Config::parse("lfs-ssd:ssd=80/25/1000/1M").unwrap().ssd.unwrap();
    assert_eq!((ssd.read_ns, ssd.flush_ns, ssd.link_bytes_per_s), (80_000, 1_000_000, 1 << 20));
}

#[test]
fn what_a_text_resolves_to_has_every_key_and_makes_the_same_configuration() {
    for text in ["lfs:disk=hp97560,cache=8M,victim=greedy", "ffs-m8r2", "vsfs:size=64M"] {
        let config = Config::parse(text).unwrap();
        let resolved = config.resolved();
        let mut names: Vec<&str> = resolved.iter().map(|(key, _)| *key).collect();
        let value = |name| &resolved.iter().find(|(key, _)| *key == name).unwrap().1;
        assert_eq!(
            (value(LAYOUT).as_str(), value("disk").as_str()),
            (config.layout.name(), config.disk.name)
        );
        assert_eq!(names.len(), keys().count() + 1 + config.of_layout.keys().len(), "{text}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), resolved.len(), "{text}");
        // What is not a setting of its own, or counts on the presence of something else.
        let is_open = |value: &str| [OWN, AUTOMATIC, "none"].contains(&value);
        let needy: Vec<&str> =
            keys().filter(|(needs, _)| *needs != Needs::Nothing).map(|(_, key)| key.name).collect();
        let set = resolved.iter().filter(|(key, value)| !is_open(value) && !needy.contains(key));
        let set: Vec<String> = set.map(|(key, value)| format!("{key}={value}")).collect();
        let name = config.layout.name();
        let again = Config::parse(&format!("{name}:{}", set.join(","))).unwrap().resolved();
        for (before, after) in resolved.iter().zip(&again) {
            assert!(needy.contains(&before.0) || before == after, "{text}: {before:?} {after:?}");
        }
    }
}

#[test]
fn mistakes_are_told_with_what_there_is() {
    for (text, word) in [
        ("ext4", "lfs-classic"),
        ("lfs:disk=floppy", "hp97560"),
        ("lfs:colour=red", "cache"),
        ("lfs:cahce=8M", "did you mean \"cache\"?"),
        ("lfs:ordering=sync", "set layout=ffs"),
        ("lfs:cache=lots", "not a number of bytes"),
        ("lfs:ssd=80/25/1000", "80/25/1000/550M"),
        ("lfs:ssd=80/25/1000/0", "a byte a second"),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}
