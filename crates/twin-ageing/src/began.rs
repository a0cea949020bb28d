//! What simulations that began on old volumes say, beside those that began on new ones.

use serde_json::Value;
use twin_lab::{Config, Figures};
use twin_verdict::{Judgement, Seeded, text_of, value_of, verdict};

/// What simulations began on.
#[derive(Clone, Debug)]
pub struct Began {
    /// What it is, in words.
    pub words: String,
    /// The layout score of the volume of each configuration, by its name.
    pub scores: Vec<(String, Option<f64>)>,
}

impl Began {
    /// The verdict on old volumes, with that on new ones where they differ.
    pub fn verdict(
        &self,
        fresh: Option<&[(Config, Seeded)]>,
        old: &[(Config, Seeded)],
        of_old: Option<String>,
        how: &Judgement<'_>,
    ) -> String {
        let scores: Vec<String> = self
            .scores
            .iter()
            .map(|(name, score)| {
                format!("{name} {}", score.map_or("-".into(), |s| format!("{s:.3}")))
            })
            .collect();
        // Of one configuration there is no verdict.
        let of_old = of_old.map_or(String::new(), |verdict| format!(": {verdict}"));
        let mut text = format!(
            "On {}{of_old}\nLayout scores at the beginning: {}.",
            self.words,
            scores.join(", ")
        );
        let Some(fresh) = fresh else { return text };
        let rank = |runs: &[(Config, Seeded)], name: &str| {
            runs.iter()
                .find(|(config, _)| config.name == name)
                .and_then(|(_, run)| run.figures.rank)
        };
        let differs =
            |(config, run): &(Config, Seeded)| run.figures.rank != rank(fresh, &config.name);
        match old.iter().any(differs) {
            false if old.len() < 2 => {}
            false => text += "\nOn new volumes the order is the same.",
            true => {
                let new: Vec<(&Config, &Figures)> =
                    fresh.iter().map(|(config, run)| (config, &run.figures)).collect();
                let of_new = verdict(&new, how).unwrap_or_default();
                text += &format!("\nOn new volumes the order is another one: {of_new}");
            }
        }
        for (config, run) in old {
            let Some((_, new)) = fresh.iter().find(|(other, _)| other.name == config.name) else {
                continue;
            };
            let both = [&run.figures, &new.figures];
            let [Some(old), Some(new)] = both.map(|figures| value_of(how.measure, figures)) else {
                continue;
            };
            let texts = both.map(|figures| text_of(how.measure, figures).unwrap_or_default());
            text += &format!(
                "\n{}: {} on the old volume, {} on a new one ({:+.1}% by {})",
                config.name,
                texts[0],
                texts[1],
                (old / new - 1.0) * 100.0,
                how.measure.name
            );
        }
        text
    }

    /// Adds to the objects of old volumes what they began on, and those of new ones.
    ///
    /// # Errors
    /// None that figures can have.
    pub fn add_to(
        &self,
        objects: &mut Vec<Value>,
        fresh: &[(Config, Seeded)],
    ) -> Result<(), String> {
        for object in objects.iter_mut() {
            object["start"] = self.words.clone().into();
            let score = self.scores.iter().find(|(name, _)| object["config"] == name.as_str());
            if let Some((_, score)) = score {
                object["start_layout_score"] = (*score).into();
            }
        }
        for (_, run) in fresh {
            let mut object = serde_json::to_value(&run.figures).map_err(|e| e.to_string())?;
            object["start"] = "new volumes".into();
            objects.push(object);
        }
        Ok(())
    }
}
