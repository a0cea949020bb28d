//! The figures of an experiment as rows and as a table.
//!
//! Contract: a row has the names of a simulated one. What is not known of a real run (the cache, the log, the
//! processor) is left out of it, and so empty in comma-separated values.

use serde_json::{Value, json};
use twin_lab::{Figures, Spread};
use twin_report::table::Cell;
use twin_report::units::{duration, mib};
use twin_report::{Part, Report, Table, value};

use super::values::{fsync_us, middle, spread};
use super::{Experiment, Measured};

/// Figures of a run that only a simulation knows.
const SIMULATED: [&str; 6] = ["cache_hit_share", "cpu_s", "log", "space", "digest", "pauses_s"];
/// Figures of the device that the kernel counts.
const COUNTED: [&str; 6] = ["reads", "read_bytes", "writes", "written_bytes", "flushes", "busy_s"];

impl Experiment {
    /// True if all of the workload was done at every place.
    pub fn is_whole(&self) -> bool {
        let whole = |one: &Measured| one.runs.iter().all(|run| run.failed == 0);
        self.absent.is_empty() && self.measured.iter().all(whole)
    }

    /// Adds the table to a report, what went wrong, and a row for each place.
    pub fn add_to(&self, report: &mut Report) {
        report.on_page(Part::heading("Measured on this machine"));
        report.add(self.conditions());
        report.add(self.table());
        for one in &self.measured {
            let failed: u64 = one.runs.iter().map(|run| run.failed).max().unwrap_or(0);
            if failed > 0 {
                let ops = one.runs.first().map_or(0, |run| run.ops);
                let why = &one.most_common;
                report.add(Part::Failure(format!(
                    "{}: FAILED: {failed} of {ops} operations{why}: it is not judged.",
                    one.name
                )));
            }
            if let Some(why) = &one.not_simulated {
                report.add(Part::Failure(format!("{} could not be simulated: {why}", one.name)));
            }
        }
        for (name, why) in &self.absent {
            report.add(Part::Failure(format!("{name} could not take part: {why}")));
        }
        report.rows_mut().extend(self.rows());
    }

    /// How it was measured.
    fn conditions(&self) -> String {
        let mut words = format!(
            "Measured by replaying on this machine, {} in turn on new file systems with empty caches, until \
             everything was durable; medians, and the least and the most.",
            match self.runs {
                1 => "once each".to_owned(),
                runs => format!("{runs} runs each"),
            }
        );
        if let Some(own_s) = self.own_s.filter(|_| self.machine.is_some()) {
            words += &format!(
                " Simulated times contain what the same calls took on a file system in memory ({}): the time \
                 of the kernel and of the replay itself.",
                duration(own_s * 1e6)
            );
        }
        if self.clients > 1 {
            words += &format!(" Up to {} clients worked at a time.", self.clients);
        }
        words
    }

    /// A row for each place, the fastest first.
    fn table(&self) -> Table {
        let mut all: Vec<(&Measured, Spread)> =
            self.measured.iter().map(|one| (one, self.values(one))).collect();
        all.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
        let columns = [
            "measured on",
            "all on disk",
            "clients waited",
            "simulated",
            "p99",
            "fsync p99",
            "written",
            "reads, writes, flushes",
        ];
        let rows = all.iter().map(|(one, _)| self.row(one));
        Table::new(columns, 1).with(rows).giving_way(4)
    }

    fn row(&self, one: &Measured) -> Vec<Cell> {
        let seconds = |spread: Spread| match spread.values.len() {
            1 => duration(spread.median * 1e6),
            _ => format!(
                "{} ({} to {})",
                duration(spread.median * 1e6),
                duration(spread.min * 1e6),
                duration(spread.max * 1e6)
            ),
        };
        let of = |of: fn(&Figures) -> f64| spread("", &one.runs, of);
        let simulated = match one.simulated.is_empty() {
            true => "-".to_owned(),
            false => duration(spread("", &one.simulated, |run| self.by.of(run)).median * 1e6),
        };
        let disk = middle(&one.runs).map(|run| &run.disk_use).filter(|disk| disk.writes > 0);
        let fsync = one.runs.iter().all(|run| fsync_us(run) > 0.0);
        let cells = [
            one.name.clone(),
            seconds(of(|run| run.finish_s)),
            seconds(of(|run| run.waiting_s)),
            simulated,
            duration(of(|run| run.latency.p99_us).median),
            if fsync { duration(of(fsync_us).median) } else { "-".into() },
            disk.map_or("-".into(), |disk| mib(disk.written_bytes)),
            disk.map_or("-".into(), |d| format!("{}, {}, {}", d.reads, d.writes, d.flushes)),
        ];
        cells.into_iter().map(Cell::from).collect()
    }

    /// An object for each place, in the names of simulated figures.
    fn rows(&self) -> Vec<Value> {
        let absent =
            |(name, why): &(String, String)| json!({ "on": name, "measured": true, "error": why });
        self.measured.iter().map(object).chain(self.absent.iter().map(absent)).collect()
    }
}

/// The figures of the run that took neither long nor short, with the values of all runs.
fn object(one: &Measured) -> Value {
    let Some(run) = middle(&one.runs) else {
        return json!({ "on": one.name, "measured": true, "error": "no run" });
    };
    let mut spreads = vec![
        spread("finish", &one.runs, |run| run.finish_s),
        spread("waiting", &one.runs, |run| run.waiting_s),
        spread("p99", &one.runs, |run| run.latency.p99_us),
    ];
    if one.runs.iter().all(|run| fsync_us(run) > 0.0) {
        spreads.push(spread("fsync", &one.runs, fsync_us));
    }
    let finish_s = spreads[0].median;
    let mut row = value(Figures { finish_s, spreads, ..run.clone() });
    if let Value::Object(fields) = &mut row {
        SIMULATED.iter().for_each(|name| _ = fields.remove(*name));
        match fields.get_mut("disk_use") {
            Some(Value::Object(disk)) if run.disk_use.writes > 0 => {
                disk.retain(|name, _| COUNTED.contains(&name.as_str()));
            }
            _ => _ = fields.remove("disk_use"),
        }
    }
    row["waiting_s"] = spread("", &one.runs, |run| run.waiting_s).median.into();
    row["on"] = one.name.as_str().into();
    row["measured"] = true.into();
    row["runs"] = one.runs.len().into();
    if !one.simulated.is_empty() {
        let simulated = spread("", &one.simulated, |run| run.finish_s).median;
        row["simulated_finish_s"] = simulated.into();
        row["simulated_waiting_s"] = spread("", &one.simulated, |run| run.waiting_s).median.into();
        row["simulated_over_measured"] = (simulated / finish_s).into();
    }
    row
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::{experiment, place};
    use super::*;
    use twin_lab::DiskFigures;
    use twin_report::Form;

    #[test]
    fn a_measured_row_has_the_names_of_a_simulated_one_and_nothing_that_nobody_knows() {
        let mut ext4 = place("ext4", &[3.0, 1.0, 2.0], &[]);
        for run in &mut ext4.runs {
            run.disk_use = DiskFigures { writes: 9, written_bytes: 4096, ..DiskFigures::default() };
        }
        let lfs = place("lfs", &[4.0, 5.0, 6.0], &[4.0; 3]);
        let rows = experiment(vec![ext4, lfs]).rows();
        assert_eq!((&rows[0]["config"], &rows[0]["finish_s"]), (&json!("ext4"), &json!(2.0)));
        assert_eq!(rows[0]["disk_use"]["written_bytes"], 4096);
        assert!(rows[0]["disk_use"].get("medium_s").is_none() && rows[0].get("log").is_none());
        assert_eq!(rows[0]["spreads"][0]["values"], json!([3.0, 1.0, 2.0]), "by run");
        assert!(rows[1].get("disk_use").is_none(), "nobody counted it");
        assert_eq!(rows[1]["simulated_over_measured"], 0.8);
        let simulated = value(Figures::default());
        let own = ["on", "measured", "runs", "waiting_s", "spreads"];
        let known = |name: &String| simulated.get(name).is_some() || own.contains(&name.as_str());
        assert!(rows[0].as_object().unwrap().keys().all(known), "{:?}", rows[0]);
    }

    #[test]
    fn every_place_has_a_line_also_if_it_could_not_take_part() {
        let mut failed = place("lfs", &[4.0, 5.0, 6.0], &[5.0; 3]);
        failed.runs[0].failed = 3;
        let mut all = experiment(vec![failed, place("ext4", &[1.0, 2.0, 3.0], &[])]);
        all.absent.push(("xfs".into(), "no mkfs.xfs".into()));
        assert!(!all.is_whole());
        let mut report = Report::new("");
        all.add_to(&mut report);
        let text = report.write(Form::Terminal(None));
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}: {text}"));
        assert!(at("ext4") < at("lfs"), "the fastest first: {text}");
        assert!(text.contains("5.00 s (4.00 s to 6.00 s)"), "{text}");
        assert!(text.contains("FAILED: 3 of"), "{text}");
        assert!(text.contains("xfs could not take part: no mkfs.xfs"), "{text}");
    }
}
