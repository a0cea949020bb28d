//! Price lists of buckets as text: five sums in dollars with slashes between them.

use twin_settings::SettingsError;
use twin_sim::model::Prices;

/// The highest sum: more is a slip of the pen.
const MOST_USD: f64 = 1e6;

/// The list that a text has.
///
/// # Errors
/// If it has not five sums.
pub(super) fn parse(text: &str) -> Result<Prices, SettingsError> {
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
pub(super) fn text(prices: &Prices) -> String {
    let Prices { put_1000, get_1000, month_gb, in_gb, out_gb } = prices;
    format!("{put_1000}/{get_1000}/{month_gb}/{in_gb}/{out_gb}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written_and_what_is_none_is_refused() {
        let list = parse("0.005/0.0004/0.023/0/0.09").unwrap();
        assert_eq!(text(&list), "0.005/0.0004/0.023/0/0.09");
        for wrong in ["0.005", "1/2/3/4/-5", "1/2/3/4/x", "1/2/3/4/5/6", "1/2/3/4/inf", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
