//! The settings of buckets: price lists, rates and outages as text, and what `mkfs` and `mount` choose for a volume in one.

use twin_bucket::PACK_BYTES;
use twin_rt::{Nanos, SECS};
use twin_settings::value::{list, nanos, nanos_text, number};
use twin_settings::{Key, SettingsError};
use twin_sim::model::Prices;
use twin_sim::{Outage, Rates};

use super::{Config, Needs, OWN};

/// The highest sum: more is a slip of the pen.
const MOST_USD: f64 = 1e6;
/// The latest second of an outage.
const MOST_NS: Nanos = 1_000_000 * SECS;

/// The store of a bucket, where it is not that of its model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Store {
    /// Its price list, instead of the one of the model's date.
    pub prices: Option<Prices>,
    /// The requests that it takes in a second.
    pub rates: Option<Rates>,
    /// When it does not work; counted from the beginning of the load.
    pub outage: Option<Outage>,
}

/// The keys.
pub(super) const KEYS: &[(Needs, Key<Config>)] = &[
    (
        Needs::Bucket,
        Key::own(
            "prices",
            "what a bucket charges, in dollars: for 1,000 requests that store and 1,000 that read, for a \
             gigabyte a month, brought in, and read: 0.005/0.0004/0.023/0/0, or own",
            "put/get/month/in/out",
            |c, text| set(text, prices, &mut c.store.prices),
            |c| c.store.prices.as_ref().map_or(OWN.into(), prices_text),
        ),
    ),
    (
        Needs::Bucket,
        Key::own(
            "request-rate",
            "requests a second that a bucket takes before it says \"slow down\": those that change, those \
             that read; or own",
            "changes/reads",
            |c, text| set(text, rates, &mut c.store.rates),
            |c| c.store.rates.map_or(OWN.into(), rates_text),
        ),
    ),
    (
        Needs::Bucket,
        Key::own(
            "outage",
            "when, after the load began, and how long a bucket answers nothing but errors: 60s+2min, or own \
             for never",
            "start+length",
            |c, text| set(text, outage, &mut c.store.outage),
            |c| c.store.outage.map_or(OWN.into(), outage_text),
        ),
    ),
];

/// Sets what a text says, or what is the model's own.
pub(super) fn set<T>(
    text: &str,
    parse: fn(&str) -> Result<T, SettingsError>,
    to: &mut Option<T>,
) -> Result<(), SettingsError> {
    *to = if text == OWN { None } else { Some(parse(text)?) };
    Ok(())
}

/// The price list that a text has.
///
/// # Errors
/// If it has not five sums.
pub(super) fn prices(text: &str) -> Result<Prices, SettingsError> {
    let sums = text.split('/').map(|sum| sum.parse::<f64>().ok());
    let sums: Option<Vec<f64>> = sums.collect();
    let sums = sums.filter(|sums| sums.iter().all(|usd| (0.0..=MOST_USD).contains(usd)));
    match sums.as_deref() {
        Some(&[put_1000, get_1000, month_gb, in_gb, out_gb]) => {
            Ok(Prices { put_1000, get_1000, month_gb, in_gb, out_gb })
        }
        _ => Err(SettingsError::new(format!(
            "prices={text}: must be five sums in dollars, put/get/month/in/out, as 0.005/0.0004/0.023/0/0"
        ))),
    }
}

/// The list as text.
pub(super) fn prices_text(prices: &Prices) -> String {
    let Prices { put_1000, get_1000, month_gb, in_gb, out_gb } = prices;
    format!("{put_1000}/{get_1000}/{month_gb}/{in_gb}/{out_gb}")
}

/// The rates that a text has.
///
/// # Errors
/// If it has not two.
pub(super) fn rates(text: &str) -> Result<Rates, SettingsError> {
    let [changes, reads] = list(text, "changes/reads, as 3500/5500")?;
    match (number(changes)?, number(reads)?) {
        (changes @ 1..=1_000_000, reads @ 1..=1_000_000) => Ok(Rates { changes, reads }),
        _ => Err(SettingsError::new(format!("{text}: rates are 1 to 1,000,000 a second"))),
    }
}

/// The rates as text.
pub(super) fn rates_text(rates: Rates) -> String {
    format!("{}/{}", rates.changes, rates.reads)
}

/// The outage that a text has.
///
/// # Errors
/// If it has not its beginning and its length.
pub(super) fn outage(text: &str) -> Result<Outage, SettingsError> {
    let Some((start, length)) = text.split_once('+') else {
        let what = format!("{text}: an outage is its beginning and its length, as 60s+2min");
        return Err(SettingsError::new(what));
    };
    let (start_ns, length_ns) = (nanos(start, SECS)?, nanos(length, SECS)?);
    match start_ns.max(length_ns) <= MOST_NS {
        true => Ok(Outage { start_ns, length_ns }),
        false => Err(SettingsError::new(format!("{text}: that is longer than any load"))),
    }
}

/// The outage as text.
pub(super) fn outage_text(outage: Outage) -> String {
    format!("{}+{}", nanos_text(outage.start_ns), nanos_text(outage.length_ns))
}

/// What `mkfs` and `mount` choose for a volume in a bucket, where nobody has chosen.
///
/// # Errors
/// If the layout cannot be there.
pub(super) fn complete(
    config: &mut Config,
    asked: &dyn Fn(&str) -> bool,
) -> Result<(), SettingsError> {
    if !config.layout.is_log() {
        let text = format!(
            "only a log fits into a bucket, and {} writes in place: choose layout=lfs, or another disk",
            config.layout.name()
        );
        return Err(SettingsError::new(text));
    }
    let own = [("segment", PACK_BYTES.to_string()), ("discard", "yes".into())];
    for (key, value) in own.iter().filter(|(key, _)| !asked(key)) {
        config.of_layout.set(key, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written_and_what_is_none_is_refused() {
        let list = prices("0.005/0.0004/0.023/0/0.09").unwrap();
        assert_eq!(prices_text(&list), "0.005/0.0004/0.023/0/0.09");
        for wrong in ["0.005", "1/2/3/4/-5", "1/2/3/4/x", "1/2/3/4/5/6", "1/2/3/4/inf", ""] {
            assert!(prices(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn outages_and_rates_are_read_as_they_are_written() {
        for text in ["1min+2h", "0s+1s"] {
            assert_eq!(outage_text(outage(text).unwrap()), text);
        }
        assert_eq!(rates_text(rates("3500/5500").unwrap()), "3500/5500");
        for wrong in ["60s", "1s+x", "1s+100000h", ""] {
            assert!(outage(wrong).is_err(), "{wrong}");
        }
        assert!(rates("0/5").is_err() && rates("5").is_err());
    }

    #[test]
    fn a_log_has_the_settings_of_a_mount_and_other_layouts_are_refused() {
        let of = |text: &str| Config::parse(text).map(|config| config.resolved());
        let all = of("lfs:disk=s3-express").unwrap();
        for (key, value) in [("segment", "8M"), ("discard", "yes")] {
            assert!(all.contains(&(key, value.into())), "{key}: {all:?}");
        }
        let all = of("lfs:disk=s3-express,segment=1M,discard=no").unwrap();
        assert!(all.contains(&("segment", "1M".into())) && all.contains(&("discard", "no".into())));
        for other in ["ffs", "vsfs"] {
            let why = of(&format!("{other}:disk=s3-standard")).unwrap_err().to_string();
            assert!(why.contains("only a log fits into a bucket"), "{why}");
        }
    }
}
