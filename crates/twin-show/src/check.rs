//! What a check has found: `twinfs check`.

use serde_json::{Value, json};
use twin_fs::{CheckReport, CheckRequest};

/// The report of a check, and what was asked for.
pub struct Found<'a> {
    /// What was found.
    pub report: &'a CheckReport,
    /// How the volume was checked.
    pub how: CheckRequest,
    /// The notes, and a verdict that is as hoped for, are left out.
    pub quiet: bool,
    /// The layout may have checksums of the data of files, whatever volumes of other layouts have.
    pub has_checksums: bool,
}

impl Found<'_> {
    /// One row for each finding and note, and the verdict as the last.
    pub fn rows(&self) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        let mut row = |kind: &str, text: &str| all.push(json!({ "kind": kind, "text": text }));
        self.report.findings.iter().for_each(|text| row("finding", text));
        if self.report.more_findings > 0 {
            row("more findings", &self.report.more_findings.to_string());
        }
        self.notes().for_each(|text| row("note", text));
        row("verdict", self.verdict());
        all
    }

    /// The same for people, a line each.
    pub fn in_words(&self) -> String {
        let CheckReport { findings, more_findings, rescued, .. } = self.report;
        let mut lines = findings.clone();
        if *more_findings > 0 {
            lines.push(format!("and {more_findings} more findings"));
        }
        lines.extend(self.notes().map(String::from));
        match (self.report.is_clean(), self.how.repair) {
            (false, true) => lines.push(format!("repaired; {rescued} files are in lost+found")),
            _ if self.quiet => {}
            (true, _) => lines.push("clean".into()),
            (false, false) => {
                let data = if self.how.data { " --data" } else { "" };
                lines.push(format!(
                    "not clean; `twinfs check --repair{data}` repairs it (copy the volume first)"
                ));
            }
        }
        lines.join("\n")
    }

    fn notes(&self) -> impl Iterator<Item = &str> {
        // "clean" is said of what was read.
        let skipped = self.report.skipped_data.then_some(match self.has_checksums {
            true => "the data of files was not read: --data reads it and compares checksums",
            false => {
                "the data of files was not read: there are checksums of it on logs, and on FFS made with --data-checksums"
            }
        });
        let notes = self.report.notes.iter().map(String::as_str).chain(skipped);
        notes.filter(|_| !self.quiet)
    }

    fn verdict(&self) -> &'static str {
        match (self.report.is_clean(), self.how.repair) {
            (true, _) => "clean",
            (false, true) => "repaired",
            (false, false) => "not clean",
        }
    }
}
