//! What the lab says: a verdict, and for each class of failing states what was promised, what is missing and why.
//!
//! Contract: the verdict is one of four words, which scripts compare, and decides the exit status. The object in JSON has
//! the version [`SCHEMA`]; docs/crashlab.md describes its members.

use serde_json::{Value, json};
use twin_report::{Part, Report};

use crate::search::{Class, Findings, Line, Mark};

/// The name and version of the object in JSON.
pub const SCHEMA: &str = "twinfs-crashlab-1";
/// The most lines of a history that are shown.
const MOST_LINES: usize = 40;

/// Said where a state fails before the first acknowledgement.
const NOTHING_PROMISED: &str = "Where nothing was acknowledged, nothing that was promised is lost: the check asks for \
    more, as that a file opens while it is being made. If that is not meant, let --setup make the file, or let the check \
    pass where $CRASHLAB_ACKED is empty.";
/// The most missing things that are named.
const MOST_MISSING: usize = 8;

/// What the lab found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every state that was tried passed the check.
    Survived,
    /// A state did not.
    Lost,
    /// The run or the check does not work even without a power failure.
    NotMeasured,
    /// The lab does not find a loss that it has planted itself.
    HarnessBroken,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Survived => "survived",
            Verdict::Lost => "lost",
            Verdict::NotMeasured => "not measured",
            Verdict::HarnessBroken => "harness broken",
        }
    }

    /// The exit status of the command.
    pub fn status(self) -> u8 {
        match self {
            Verdict::Survived => 0,
            Verdict::Lost => 1,
            Verdict::NotMeasured | Verdict::HarnessBroken => 3,
        }
    }
}

/// All that a report needs.
pub struct Facts<'a> {
    /// What was found.
    pub verdict: Verdict,
    /// Why it was not measured, or what is broken.
    pub why: Option<String>,
    /// The model of persistence.
    pub like: &'a str,
    /// The layout of the volume.
    pub layout: &'a str,
    /// The command.
    pub command: &'a str,
    /// The check.
    pub check: &'a str,
    /// The seed.
    pub seed: u64,
    /// Events, syncs and acknowledgements of the run.
    pub counts: Counts,
    /// What was looked at.
    pub findings: &'a Findings,
    /// What is wrong.
    pub classes: &'a [Class],
    /// How long all of it took, in seconds.
    pub seconds: f64,
    /// Whether the check fails on an empty volume at which all is acknowledged; `None` if that was not tried.
    pub sees_loss: Option<bool>,
    /// The command that repeats one state.
    pub repeat: &'a dyn Fn(&Class) -> String,
    /// What became of second power failures, if there were some.
    pub second: Option<Second>,
    /// More to tell: a line each.
    pub notes: &'a [String],
}

/// Second power failures, while a check recovers what the first one left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// States in which the check was run on a volume with a history.
    pub recoveries: u64,
    /// Of these, those in which it changed something.
    pub changing: u64,
    /// States after a second failure that were tried.
    pub tried: u64,
    /// Of these, those that failed.
    pub failed: u64,
}

/// Figures of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that changed something.
    pub changes: u64,
    /// fsync, fdatasync, sync.
    pub syncs: u64,
    /// Acknowledgements.
    pub acks: u64,
    /// Parts that survive or do not.
    pub parts: u64,
}

impl Counts {
    /// Of this history.
    pub fn of(history: &crate::History, parts: u64) -> Counts {
        use crate::history::What;
        let mut counts = Counts { parts, ..Counts::default() };
        for event in &history.events {
            match &event.what {
                What::Ack { .. } => counts.acks += 1,
                What::Close { .. } | What::Exit => {}
                what if what.id() == Some(crate::tree::DEVICE) => {}
                what if what.is_sync() => counts.syncs += 1,
                _ => counts.changes += 1,
            }
        }
        counts
    }
}

impl Facts<'_> {
    /// The verdict in a sentence or two.
    fn sentence(&self) -> String {
        let found = self.findings;
        let word = self.verdict.word();
        let place = match self.like {
            "strict" => format!("on the layout {}", self.layout),
            like => format!("on a file system like {like}"),
        };
        match self.verdict {
            Verdict::Survived => format!(
                "{word}: all {} states that were tried of those that a power failure may leave {place} pass the check.",
                found.tried
            ),
            Verdict::Lost if found.failed == 0 => format!(
                "{word}: all {} states that were tried {place} pass the check, and {} do not after a second power failure.",
                found.tried,
                self.second.unwrap_or_default().failed,
            ),
            Verdict::Lost => format!(
                "{word}: {} of {} states that a power failure may leave {place} fail the check, for {} reason{}.",
                found.failed,
                found.tried,
                self.classes.len(),
                if self.classes.len() == 1 { "" } else { "s" }
            ),
            Verdict::NotMeasured | Verdict::HarnessBroken => {
                format!("{word}: {}.", self.why.as_deref().unwrap_or("it was interrupted"))
            }
        }
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(format!("Power failures of `{}`", self.command));
        report.set_verdict(self.sentence(), "");
        for (number, class) in self.classes.iter().enumerate() {
            report.add(Part::Lines(self.class_text(number + 1, class)));
        }
        report.add(Part::Lines(self.coverage_text()));
        report.set_json(self.json());
        report
    }

    fn class_text(&self, number: usize, class: &Class) -> String {
        let mut text = format!("\n{number}. {}\n", class.why);
        if let Some(first) = &class.after {
            text +=
                &format!("   A second power failure, while the check recovers the state {first}\n");
        }
        let last = class.acked.last();
        text += &match last {
            None => "   Acknowledged: nothing\n".to_owned(),
            Some(last) => {
                format!(
                    "   Acknowledged: {} label{}, the last one is `{last}`\n",
                    class.acked.len(),
                    if class.acked.len() == 1 { "" } else { "s" }
                )
            }
        };
        for missing in class.missing.iter().take(MOST_MISSING) {
            text += &format!("   Missing: {missing}\n");
        }
        if class.missing.len() > MOST_MISSING {
            text += &format!("   Missing: {} more\n", class.missing.len() - MOST_MISSING);
        }
        text += &format!("   The check: {}", class.how);
        let said = class.said.trim();
        text += &if said.is_empty() {
            "\n".to_owned()
        } else {
            format!(", after it said\n{}", indented(said))
        };
        text += "   Operations since the last fsync before what is missing:\n";
        let lines = &class.lines;
        let cut = lines.len().saturating_sub(MOST_LINES);
        let head = if cut > 0 { MOST_LINES / 2 } else { lines.len() };
        lines[..head].iter().for_each(|line| text += &line_text(line));
        if cut > 0 {
            text += &format!("     ... {cut} more\n");
            lines[head + cut..].iter().for_each(|line| text += &line_text(line));
        }
        text += "     power failure\n";
        let least = if class.is_least { "" } else { " (perhaps not the shortest history)" };
        text += &format!("   States of this kind: {}{least}\n", class.states);
        text += &format!("   Again: {}", (self.repeat)(class));
        text
    }

    fn coverage_text(&self) -> String {
        let found = self.findings;
        let counts = self.counts;
        let mut text = format!(
            "\n{} operations, {} syncs, {} acknowledgements; {} states of different content tried in {:.1} s, {} more \
             had a content that was known.",
            counts.changes, counts.syncs, counts.acks, found.tried, self.seconds, found.known
        );
        for kind in &found.coverage {
            let of = kind.all.map_or(String::new(), |all| format!(" of {all}"));
            text += &format!("\n  {}: {}{of}", kind.what, kind.looked_at);
        }
        if let Some(why) = &found.cut {
            text += &format!("\nThe search ended early: {why}.");
        }
        if self.sees_loss == Some(false) {
            text += "\nThe check passes on an empty volume with everything acknowledged: it finds contradictions, and no \
                     loss of what was acknowledged. Let it read the labels in $CRASHLAB_ACKED.";
        }
        if let Some(Second { recoveries, changing, tried, failed }) = self.second {
            text += &format!(
                "\nThe check was run on a volume in {recoveries} of these states, and changed something in {changing}: \
                 of {tried} states after a second power failure there, {failed} fail."
            );
        }
        for note in self.all_notes() {
            text += &format!("\n{note}");
        }
        text
    }

    /// The notes, and what a reader of the classes should know of them.
    fn all_notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = self.notes.iter().map(String::as_str).collect();
        if self.classes.iter().any(|class| class.acked.is_empty()) {
            notes.push(NOTHING_PROMISED);
        }
        notes
    }

    fn json(&self) -> Value {
        let found = self.findings;
        let coverage = found.coverage.iter().map(
            |kind| json!({ "kind": kind.what, "states": kind.all, "looked_at": kind.looked_at }),
        );
        let classes = self.classes.iter().map(|class| {
            let lines = class.lines.iter().map(|line| {
                json!({ "event": line.event, "fate": fate(line.mark), "operation": line.words })
            });
            json!({
                "why": class.why,
                "acknowledged": class.acked,
                "missing": class.missing,
                "operations": lines.collect::<Vec<_>>(),
                "check": class.how,
                "output": class.said,
                "states": class.states,
                "is_least": class.is_least,
                "state": class.state_name(),
                "second_failure": class.after.is_some(),
                "repeat": (self.repeat)(class),
            })
        });
        json!({
            "schema": SCHEMA,
            "command": "crashlab",
            "verdict": self.verdict.word(),
            "sentence": self.sentence(),
            "why": self.why,
            "like": self.like,
            "layout": self.layout,
            "program": self.command,
            "check": self.check,
            "seed": self.seed,
            "operations": self.counts.changes,
            "syncs": self.counts.syncs,
            "acknowledgements": self.counts.acks,
            "states_tried": found.tried,
            "states_known": found.known,
            "states_failed": found.failed,
            "ended_early": found.cut,
            "check_sees_total_loss": self.sees_loss,
            "second": self.second.map(|second| json!({
                "recoveries": second.recoveries,
                "changing": second.changing,
                "states_tried": second.tried,
                "states_failed": second.failed,
            })),
            "coverage": coverage.collect::<Vec<_>>(),
            "classes": classes.collect::<Vec<_>>(),
            "notes": self.all_notes(),
            "seconds": (self.seconds * 1000.0).round() / 1000.0,
        })
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("     | {line}\n")).collect()
}

fn fate(mark: Mark) -> &'static str {
    match mark {
        Mark::There => "there",
        Mark::Lost => "lost",
        Mark::InPart => "in part",
        Mark::Sync => "syncs",
        Mark::Acked => "acknowledged",
    }
}

fn line_text(line: &Line) -> String {
    let mark = match line.mark {
        Mark::There | Mark::Sync | Mark::Acked => "    ",
        Mark::Lost => "LOST",
        Mark::InPart => "PART",
    };
    format!("     {mark} {}\n", line.words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdicts_have_the_words_and_the_exit_statuses_that_scripts_know() {
        use Verdict::{HarnessBroken, Lost, NotMeasured, Survived};
        let all = [Survived, Lost, NotMeasured, HarnessBroken].map(|v| (v.word(), v.status()));
        assert_eq!(all, [("survived", 0), ("lost", 1), ("not measured", 3), ("harness broken", 3)]);
    }
}
