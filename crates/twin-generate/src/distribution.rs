//! Distributions from which workloads by hand draw sizes, times and numbers.
//!
//! A distribution is written in the grammar of settings, `lognormal:median=4K,sigma=1.5`; the values
//! are bytes, times or numbers, as the place asks. Each knows its mean, beside which the mean of what
//! was drawn is shown.

use twin_rt::Rng;
use twin_settings::grammar::Setting;
use twin_settings::{Named, SettingsError, grammar, value};

use crate::Zipf;

/// The quantity that the values of a distribution measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A number of bytes, such as `4K`.
    Bytes,
    /// Times, in nanoseconds: `50ms`.
    Time,
    /// A number without a unit.
    Number,
}

impl Measured {
    fn parse(self, text: &str) -> Result<f64, SettingsError> {
        Ok(match self {
            Measured::Bytes => value::bytes(text)? as f64,
            Measured::Time => value::nanos(text, twin_rt::MILLIS)? as f64,
            Measured::Number => value::decimal(text)?,
        })
    }
}

/// A distribution of values, with the text that describes it.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// The text from which it was read.
    pub text: String,
    /// The quantity that its values measure.
    pub measured: Measured,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Constant(f64),
    Uniform(f64, f64),
    Exponential(f64),
    LogNormal {
        median: f64,
        sigma: f64,
    },
    Pareto {
        least: f64,
        shape: f64,
        most: f64,
    },
    Zipf {
        law: Zipf,
        count: u64,
        exponent: f64,
    },
    /// Values with the sums of the weights up to them.
    Empirical(Vec<(f64, f64)>),
}

/// The names of the distributions, with what they need.
pub const DISTRIBUTIONS: &[(&str, &str)] = &[
    ("constant", "value"),
    ("uniform", "from, to"),
    ("exponential", "mean"),
    ("lognormal", "median, sigma"),
    ("pareto", "least, shape, most"),
    ("zipf", "count, exponent: ranks from 0, the lower the more often"),
    ("empirical", "values with their weights, as 4K=3,16K=1"),
];

impl Distribution {
    /// Parses `name:key=value,...`.
    ///
    /// # Errors
    /// If there is no such distribution, or it lacks something, or a value makes no sense.
    pub fn parse(text: &str, measured: Measured) -> Result<Distribution, SettingsError> {
        let named = Named::parse(text)?;
        let law = Law::parse(&named, measured).map_err(|error| error.within(text))?;
        Ok(Distribution { text: text.into(), measured, law })
    }

    /// Draws a value, never negative.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        // A number above 0, of which a logarithm can be taken.
        let mut above_zero = || 1.0 - rng.unit();
        match &self.law {
            Law::Constant(value) => *value,
            Law::Uniform(from, to) => from + (to - from) * rng.unit(),
            Law::Exponential(mean) => -mean * above_zero().ln(),
            Law::LogNormal { median, sigma } => {
                // Box and Muller (1958).
                let radius = (-2.0 * above_zero().ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * above_zero()).cos();
                median * (sigma * normal).exp()
            }
            Law::Pareto { least, shape, most } => {
                // Draws by inverting the distribution that is cut off at `most`.
                let share = 1.0 - (least / most).powf(*shape);
                least / (1.0 - rng.unit() * share).powf(1.0 / shape)
            }
            Law::Zipf { law, .. } => law.draw(rng) as f64,
            Law::Empirical(values) => {
                let all = values.last().map_or(0.0, |(_, sum)| *sum);
                let at = rng.unit() * all;
                let place = values.partition_point(|(_, sum)| *sum <= at);
                values[place.min(values.len() - 1)].0
            }
        }
    }

    /// The mean of the distribution.
    pub fn mean(&self) -> f64 {
        match &self.law {
            Law::Constant(value) => *value,
            Law::Uniform(from, to) => (from + to) / 2.0,
            Law::Exponential(mean) => *mean,
            Law::LogNormal { median, sigma } => median * (sigma * sigma / 2.0).exp(),
            Law::Pareto { least, shape, most } => {
                let (l, a, h) = (*least, *shape, *most);
                let share = 1.0 - (l / h).powf(a);
                if (a - 1.0).abs() < 1e-9 {
                    return l * (h / l).ln() / share;
                }
                l.powf(a) / share * a / (a - 1.0) * (l.powf(1.0 - a) - h.powf(1.0 - a))
            }
            Law::Zipf { count, exponent, .. } => {
                let weights = (1..=*count).map(|rank| (rank, (rank as f64).powf(-exponent)));
                let (sum, all) = weights.fold((0.0, 0.0), |(sum, all), (rank, weight)| {
                    (sum + (rank - 1) as f64 * weight, all + weight)
                });
                sum / all
            }
            Law::Empirical(values) => {
                let (mut mean, mut before) = (0.0, 0.0);
                for (value, sum) in values {
                    mean += value * (sum - before);
                    before = *sum;
                }
                mean / before
            }
        }
    }
}

impl Law {
    fn parse(named: &Named<'_>, measured: Measured) -> Result<Law, SettingsError> {
        let settings: Vec<_> = grammar::settings(named.settings)?.into_iter().collect();
        let needs = |key: &str| {
            let found = settings.iter().find(|setting| setting.key == key);
            let missing = || SettingsError::new(format!("it needs {key}"));
            found.map(|setting| setting.value).ok_or_else(missing)
        };
        let only = |keys: &[&'static str]| match settings.iter().find(|s| !keys.contains(&s.key)) {
            Some(odd) => {
                Err(SettingsError::unknown("setting of it", odd.key, keys.iter().copied()))
            }
            None => Ok(()),
        };
        let amount = |key: &str| measured.parse(needs(key)?);
        let number = |key: &str| positive(key, value::decimal(needs(key)?)?);
        match named.name {
            "constant" => only(&["value"]).and(Ok(Law::Constant(amount("value")?))),
            "uniform" => {
                only(&["from", "to"])?;
                let (from, to) = (amount("from")?, amount("to")?);
                match from <= to {
                    true => Ok(Law::Uniform(from, to)),
                    false => Err(SettingsError::new("from must not be more than to")),
                }
            }
            "exponential" => only(&["mean"]).and(Ok(Law::Exponential(amount("mean")?))),
            "lognormal" => {
                only(&["median", "sigma"])?;
                let median = positive("median", amount("median")?)?;
                Ok(Law::LogNormal { median, sigma: number("sigma")? })
            }
            "pareto" => {
                only(&["least", "shape", "most"])?;
                let least = positive("least", amount("least")?)?;
                let (shape, most) = (number("shape")?, amount("most")?);
                match least < most {
                    true => Ok(Law::Pareto { least, shape, most }),
                    false => Err(SettingsError::new("least must be less than most")),
                }
            }
            "zipf" => {
                only(&["count", "exponent"])?;
                zipf(needs("count")?, needs("exponent")?)
            }
            "empirical" => empirical(&settings, measured),
            name => {
                let names = DISTRIBUTIONS.iter().map(|(name, _)| *name);
                Err(SettingsError::unknown("distribution", name, names))
            }
        }
    }
}

/// A number, if it is more than 0.
fn positive(what: &str, number: f64) -> Result<f64, SettingsError> {
    match number > 0.0 && number.is_finite() {
        true => Ok(number),
        false => Err(SettingsError::new(format!("{what} must be more than 0"))),
    }
}

fn zipf(count: &str, exponent: &str) -> Result<Law, SettingsError> {
    let (count, exponent) = (value::number(count)?, value::decimal(exponent)?);
    match (1..=1 << 24).contains(&count) && (0.0..=10.0).contains(&exponent) {
        true => Ok(Law::Zipf { law: Zipf::new(count, exponent), count, exponent }),
        false => {
            Err(SettingsError::new("count goes from 1 to 16777216, and exponent from 0 to 10"))
        }
    }
}

fn empirical(settings: &[Setting<'_>], measured: Measured) -> Result<Law, SettingsError> {
    let mut sum = 0.0;
    let mut values = Vec::new();
    for setting in settings {
        sum += positive("a weight", value::decimal(setting.value)?)?;
        values.push((measured.parse(setting.key)?, sum));
    }
    match values.is_empty() {
        true => Err(SettingsError::new("it needs values with weights, as 4K=3,16K=1")),
        false => Ok(Law::Empirical(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_mean_that_was_asked_for() {
        for text in [
            "constant:value=4K",
            "uniform:from=1K,to=9K",
            "exponential:mean=10K",
            "lognormal:median=4K,sigma=1.0",
            "pareto:least=1K,shape=1.5,most=1M",
            "pareto:least=1K,shape=1,most=64K",
            "zipf:count=1000,exponent=0.9",
            "empirical:4K=3,16K=1",
        ] {
            let law = Distribution::parse(text, Measured::Bytes).unwrap();
            let (mut rng, count) = (Rng::new(5), 200_000);
            let mean = (0..count).map(|_| law.draw(&mut rng)).sum::<f64>() / f64::from(count);
            let off = mean / law.mean() - 1.0;
            assert!(off.abs() < 0.03, "{text}: {mean} and {}", law.mean());
        }
    }

    #[test]
    fn shapes_are_those_of_the_laws() {
        let share_below = |text: &str, limit: f64| {
            let law = Distribution::parse(text, Measured::Number).unwrap();
            let mut rng = Rng::new(9);
            (0..100_000).filter(|_| law.draw(&mut rng) <= limit).count() as f64 / 1e5
        };
        assert!((share_below("exponential:mean=10", 10.0) - 0.632).abs() < 0.01);
        assert!((share_below("lognormal:median=10,sigma=2", 10.0) - 0.5).abs() < 0.01);
        assert!((share_below("uniform:from=0,to=4", 1.0) - 0.25).abs() < 0.01);
        // Without the cut 1 - 2^-1.5 = 0.646; the cut at 1000 changes little.
        assert!((share_below("pareto:least=1,shape=1.5,most=1000", 2.0) - 0.646).abs() < 0.01);
        assert!((share_below("empirical:1=3,2=1", 1.0) - 0.75).abs() < 0.01);
    }

    #[test]
    fn mistakes_are_told_with_what_there_is() {
        for (text, words) in [
            ("lognormal:median=4K", "needs sigma"),
            ("lognormal:median=4K,sgma=1", "sigma"),
            ("paretto:least=1", "did you mean \"pareto\"?"),
            ("uniform:from=9K,to=1K", "must not be more"),
            ("pareto:least=4K,shape=0,most=8K", "more than 0"),
            ("zipf:count=0,exponent=1", "from 1"),
            ("empirical:", "4K=3"),
            ("constant:value=much", "much"),
        ] {
            let error = Distribution::parse(text, Measured::Bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
