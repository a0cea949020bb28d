//! The report on an experiment.
//!
//! Contract: the report is made from the plan and its rows alone, in the order of the plan, so it is the same
//! however and wherever the rows were made. Configurations are judged by medians over their seeds. One with a run
//! that is missing or failed is not judged, and the verdict says how many those are. Of each row a [`State`] is held;
//! forms for programs read the rows from the store when they are written.

use std::sync::Arc;

use serde_json::{Value, json};
use twin_lab::median;
use twin_report::draw::{self, Bar, Chart, Group, Line, Span, nth};
use twin_report::rows::Source;
use twin_report::table::Cell;
use twin_report::{Report, Table};
use twin_settings::value::bytes;
use twin_verdict::{MeasureEntry, NOISE, Trust, labels};

use crate::experiment::Point;
use crate::plan::{Job, Plan, Shard};
use crate::run::{ERROR, named};
use crate::store::{Store, StoreError};

/// The most lines of a chart that can be told apart.
const MOST_LINES: usize = 12;

/// A workload and a configuration with what its runs measured.
struct Judged<'a> {
    workload: usize,
    config: usize,
    label: &'a str,
    /// The values by seed; `None` if a run is missing, failed or has no such figure.
    values: Option<Vec<f64>>,
}

impl Judged<'_> {
    fn median(&self) -> Option<f64> {
        self.values.as_deref().map(median)
    }
}

/// What is known of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has not run.
    Missing,
    /// Why it has no figures that can be judged.
    Failed(Box<str>),
    /// The value of the measure; none if the run had no such operation.
    Done(Option<f64>),
}

/// The states of all jobs, at their numbers.
///
/// # Errors
/// If the store cannot be read.
pub fn states(plan: &Plan, store: &Store) -> Result<Vec<State>, StoreError> {
    let state = |job: &Job| {
        let Some(brief) = store.brief(&job.key)? else { return Ok(State::Missing) };
        let done = || State::Done(brief.value(plan.measure));
        Ok(brief.failure().map_or_else(done, |why| State::Failed(why.into())))
    };
    plan.jobs.iter().map(state).collect()
}

/// What all jobs show. `states` are those of [`states`].
pub fn results(plan: &Arc<Plan>, store: &Arc<Store>, states: Vec<State>) -> Report {
    let mut report = shown(plan, &states);
    let (plan, store) = (Arc::clone(plan), Arc::clone(store));
    report.draw_rows(Arc::new(Rows { plan, store, states }));
    report
}

fn shown(plan: &Plan, states: &[State]) -> Report {
    let measure = plan.measure;
    let texts: Vec<&str> = plan.experiment.configs.iter().map(|c| c.text.as_str()).collect();
    let labels = labels(&texts);
    let judged = judged(plan, states, &labels);
    let mut report = Report::answer("run", &plan.experiment.title);
    let by = format!("Measure: {}, {}.", measure.name, measure.about);
    report.set_verdict(verdict(plan, &judged, states), by);
    report.on_page(charts(plan, &judged));
    report.add(table(plan, &judged, states));
    report
}

/// The rows of jobs that have run, in the order of the plan.
#[derive(Debug)]
struct Rows {
    plan: Arc<Plan>,
    store: Arc<Store>,
    states: Vec<State>,
}

impl Source for Rows {
    fn each(&self, visit: &mut dyn FnMut(Value)) {
        for job in &self.plan.jobs {
            if self.states[job.number] == State::Missing {
                continue;
            }
            let row = match self.store.get(&job.key) {
                Ok(Some(row)) => row,
                // It was there when the states were read.
                Ok(None) => json!({ ERROR: format!("{} has disappeared", job.key) }),
                Err(error) => json!({ ERROR: error.to_string() }),
            };
            visit(own_row(&self.plan, job, row));
        }
    }
}

/// The row of a job. What names it is the job's own: another job with the same key may have run first.
fn own_row(plan: &Plan, job: &Job, row: Value) -> Value {
    let mut own = named(plan, job);
    if let Value::Object(row) = row {
        for (name, value) in row {
            own.entry(name).or_insert(value);
        }
    }
    own.into()
}

fn judged<'a>(plan: &Plan, states: &[State], labels: &'a [String]) -> Vec<Judged<'a>> {
    let value = |job: &Job| match states[job.number] {
        State::Done(value) => value,
        State::Missing | State::Failed(_) => None,
    };
    let runs = plan.jobs.chunks(plan.experiment.seeds as usize);
    let of = |runs: &[Job]| Judged {
        workload: runs[0].workload,
        config: runs[0].config,
        label: &labels[runs[0].config],
        values: runs.iter().map(value).collect(),
    };
    runs.map(of).collect()
}

fn verdict(plan: &Plan, judged: &[Judged<'_>], states: &[State]) -> String {
    let mut said = Vec::new();
    let by_workload: Vec<&[Judged<'_>]> = judged.chunks(plan.configs.len()).collect();
    let many = by_workload.len() > 3;
    let mut wins: Vec<(&str, usize)> = Vec::new();
    for of_one in &by_workload {
        let mut sound: Vec<(&Judged<'_>, f64)> =
            of_one.iter().filter_map(|one| Some((one, one.median()?))).collect();
        sound.sort_by(|a, b| a.1.total_cmp(&b.1));
        let Some((best, _)) = sound.first() else { continue };
        match wins.iter_mut().find(|(label, _)| *label == best.label) {
            Some((_, count)) => *count += 1,
            None => wins.push((best.label, 1)),
        }
        if !many {
            let workload = &plan.experiment.workloads[best.workload].text;
            said.push(of_workload(plan, workload, &sound));
        }
    }
    if many {
        wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let all: usize = wins.iter().map(|(_, count)| count).sum();
        let listed: Vec<String> =
            wins.iter().take(3).map(|(label, count)| format!("{label} on {count}")).collect();
        said.push(format!("Of {all} workloads, the best is {}.", listed.join(", ")));
    }
    let missing = states.iter().filter(|state| **state == State::Missing).count();
    let failed = states.iter().filter(|state| matches!(state, State::Failed(_))).count();
    if missing > 0 {
        said.push(format!("Of {} runs, {missing} are missing.", states.len()));
    }
    if failed > 0 {
        said.push(format!("{failed} runs failed and are not judged."));
    }
    said.join(" ")
}

/// The sentence on one workload, whose configurations are sorted.
fn of_workload(plan: &Plan, workload: &str, sound: &[(&Judged<'_>, f64)]) -> String {
    let measure = plan.measure;
    let (best, value) = sound[0];
    let text = |value: f64| measure.text(value);
    let Some((second, next)) = sound.get(1) else {
        return format!("{workload}: {} has {}.", best.label, text(value));
    };
    let pair = [best.config, second.config].map(|config| plan.configs[config].clone());
    let close = measure.error(&Trust::of(&pair)).max(1.0 + NOISE);
    let tied = sound.iter().take_while(|(_, other)| *other <= value * close).count();
    if tied > 1 {
        let (a, x) = (best.label, text(value));
        let (last, y) = (sound[tied - 1].0.label, sound[tied - 1].1);
        let others = match tied {
            2 => last.to_string(),
            tied => format!("{} others", tied - 1),
        };
        return match y == value {
            true => format!("{workload}: {a} and {others} are equal with {x}."),
            false => format!(
                "{workload}: {a} ({x}) and {others} (up to {}) are too close to call.",
                text(y)
            ),
        };
    }
    let more = (next / value - 1.0) * 100.0;
    let (best, second) = (best.label, second.label);
    format!(
        "{workload}: {best} is the best with {}; {second} follows with {} ({more:.0}% more).",
        text(value),
        text(*next)
    )
}

/// The names of settings that vary, in the order in which they first appear.
fn varied(points: &[Point]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in points.iter().flat_map(|point| &point.varied) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn value_in<'a>(point: &'a Point, name: &str) -> Option<&'a str> {
    point.varied.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// A row for each workload and configuration.
fn table(plan: &Plan, judged: &[Judged<'_>], states: &[State]) -> Table {
    let measure = plan.measure;
    let several = plan.experiment.seeds > 1;
    let mut columns = vec!["workload", "config", measure.title];
    if several {
        columns.extend(["least", "most"]);
    }
    columns.push("remark");
    let row = |(one, jobs): (&Judged<'_>, &[Job])| {
        let text = |value: f64| Cell::from(measure.text(value));
        let mut cells: Vec<Cell> =
            vec![plan.experiment.workloads[one.workload].text.as_str().into(), one.label.into()];
        cells.push(one.median().map_or("-".into(), text));
        if several {
            let values = one.values.as_deref().unwrap_or_default();
            let least = values.iter().copied().reduce(f64::min);
            let most = values.iter().copied().reduce(f64::max);
            cells.extend([least, most].map(|value| value.map_or("-".into(), text)));
        }
        let of_jobs = || jobs.iter().map(|job| &states[job.number]);
        let missing = of_jobs().filter(|state| **state == State::Missing).count();
        let failed = of_jobs().find_map(|state| match state {
            State::Failed(why) => Some(&**why),
            _ => None,
        });
        cells.push(match (missing, failed) {
            (_, Some(why)) => why.into(),
            (0, None) => "".into(),
            (missing, None) => format!("{missing} of {} runs are missing", jobs.len()).into(),
        });
        cells
    };
    let jobs = plan.jobs.chunks(plan.experiment.seeds as usize);
    Table::new(columns, 2).with(judged.iter().zip(jobs).map(row)).giving_way(3)
}

/// A chart for each setting that varies: a line for each combination of the others.
fn charts(plan: &Plan, judged: &[Judged<'_>]) -> Vec<String> {
    let names = varied(&plan.experiment.configs);
    let of_configs = names.into_iter().filter_map(|name| {
        let point = |one: &Judged<'_>| &plan.experiment.configs[one.config];
        let others = |one: &Judged<'_>| &plan.experiment.workloads[one.workload];
        chart(plan.measure, name, judged, &point, &others)
    });
    let names = varied(&plan.experiment.workloads);
    let of_workloads = names.into_iter().filter_map(|name| {
        let point = |one: &Judged<'_>| &plan.experiment.workloads[one.workload];
        let others = |one: &Judged<'_>| &plan.experiment.configs[one.config];
        chart(plan.measure, name, judged, &point, &others)
    });
    of_configs.chain(of_workloads).collect()
}

/// A line of a chart: what is the same along it, and the values of the setting with the measure.
type Along<'a> = (String, Vec<(&'a str, f64)>);

/// The measure over a setting.
fn chart<'p, 'j>(
    measure: &MeasureEntry,
    name: &str,
    judged: &[Judged<'j>],
    point: &(dyn Fn(&Judged<'j>) -> &'p Point + '_),
    other: &(dyn Fn(&Judged<'j>) -> &'p Point + '_),
) -> Option<String> {
    let mut lines: Vec<Along<'_>> = Vec::new();
    for one in judged {
        let (Some(value), Some(y)) = (value_in(point(one), name), one.median()) else { continue };
        let rest = point(one).varied.iter().filter(|(own, _)| own != name);
        let rest: Vec<String> = rest.map(|(own, value)| format!("{own}={value}")).collect();
        let base = point(one).text.split([':', ',']).next().unwrap_or_default();
        let others = other(one).text.as_str();
        let along = [others, base].into_iter().chain(rest.iter().map(String::as_str));
        let along = along.collect::<Vec<_>>().join(" ");
        match lines.iter_mut().find(|(own, _)| *own == along) {
            Some((_, points)) => points.push((value, y)),
            None => lines.push((along, vec![(value, y)])),
        }
    }
    lines.retain(|(_, points)| points.len() > 1);
    if lines.is_empty() {
        return None;
    }
    let left_out = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    let more =
        if left_out > 0 { format!(", {left_out} more lines left out") } else { String::new() };
    let title = format!("{} over {name}{more}", measure.title);
    let in_order = lines.iter().flat_map(|(_, points)| points).map(|(value, _)| OnAxis::of(value));
    Some(match in_order.collect::<Option<Vec<OnAxis>>>() {
        Some(all) => {
            // Amounts are doubled from one to the next, which a logarithmic axis shows evenly.
            let amounts =
                all.iter().all(|value| matches!(value, OnAxis::Kilobytes(kb) if *kb > 0.0));
            lines_over((measure, amounts), &title, name, &lines)
        }
        None => bars_over(&title, &lines),
    })
}

/// A value that can stand on an axis: a number, or an amount of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OnAxis {
    Number(f64),
    Kilobytes(f64),
}

impl OnAxis {
    fn of(value: &str) -> Option<OnAxis> {
        let number = value.parse().ok().map(OnAxis::Number);
        number.or_else(|| Some(OnAxis::Kilobytes(bytes(value).ok()? as f64 / 1024.0)))
    }

    fn value(self) -> f64 {
        match self {
            OnAxis::Number(value) | OnAxis::Kilobytes(value) => value,
        }
    }
}

fn lines_over(
    (measure, amounts): (&MeasureEntry, bool),
    title: &str,
    name: &str,
    lines: &[Along<'_>],
) -> String {
    let line = |(at, (along, points)): (usize, &Along<'_>)| {
        let mut points: Vec<(f64, f64)> =
            points.iter().filter_map(|(value, y)| Some((OnAxis::of(value)?.value(), *y))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name: along.clone(), colour: nth(at), paper: false, points }
    };
    let all: Vec<Line> = lines.iter().enumerate().map(line).collect();
    let chart = Chart { title, y_label: measure.unit(), log_y: false, marks: &[] };
    match amounts {
        true => draw::lines(&chart, &all, name),
        false => draw::over_time(&chart, &all, name),
    }
}

fn bars_over(title: &str, lines: &[Along<'_>]) -> String {
    let bar = |(at, (value, y)): (usize, &(&str, f64))| Bar::new(*value, nth(at), *y);
    let groups: Vec<Group> = lines
        .iter()
        .map(|(along, points)| Group {
            title: along.clone(),
            bars: points.iter().enumerate().map(bar).collect(),
        })
        .collect();
    draw::bars(title, &groups, Span::Shared)
}

/// The jobs of a part, and whether each has a row.
pub fn listing(plan: &Plan, shard: Shard, states: &[State]) -> Report {
    let mut report = Report::answer("run", &plan.experiment.title);
    let jobs: Vec<&Job> = plan.part(shard).collect();
    let done = jobs.iter().filter(|job| states[job.number] != State::Missing).count();
    report.set_verdict(format!("Of {} runs, {done} are done.", jobs.len()), "");
    let mut table = Table::new(["number", "key", "workload", "config", "seed", "state"], 4);
    for job in jobs {
        let experiment = &plan.experiment;
        let state = match &states[job.number] {
            State::Missing => "missing",
            State::Failed(_) => "failed",
            State::Done(_) => "done",
        };
        table.push(vec![
            (job.number + 1).into(),
            job.key.as_str().into(),
            experiment.workloads[job.workload].text.as_str().into(),
            experiment.configs[job.config].text.as_str().into(),
            job.seed.into(),
            state.into(),
        ]);
    }
    report.add(table);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, Experiment, Prepared};
    use twin_lab::Workload;
    use twin_report::Form;
    use twin_trace::replay::Pace;

    #[test]
    fn amounts_and_numbers_stand_on_axes_and_names_do_not() {
        assert_eq!(OnAxis::of("4M"), Some(OnAxis::Kilobytes(4096.0)));
        assert_eq!(OnAxis::of("2"), Some(OnAxis::Number(2.0)));
        assert_eq!(OnAxis::of("greedy"), None);
    }

    /// A plan of three configurations with two seeds.
    fn plan() -> Plan {
        let text = "workloads = ['mail']\nconfigs = ['lfs', 'ffs', 'vsfs']\nseeds = 2";
        let experiment = Experiment::parse("x", text).unwrap();
        let mail = Prepared {
            workload: Workload::Generated("mail".into(), 1),
            content: Content::of_text("mail"),
            pace: Pace::Asap,
        };
        Plan::of(experiment, vec![mail], None, Content::of_text("test")).unwrap()
    }

    fn said(finish: [Option<f64>; 6]) -> String {
        let state = |value: Option<f64>| value.map_or(State::Missing, |v| State::Done(Some(v)));
        let states: Vec<State> = finish.into_iter().map(state).collect();
        let text = shown(&plan(), &states).write(Form::Terminal(None));
        text.lines().next().unwrap_or_default().into()
    }

    #[test]
    fn medians_over_seeds_decide_and_what_is_close_is_called_so() {
        let far = [1.0, 1.2, 9.0, 9.2, 4.0, 4.2].map(Some);
        assert_eq!(
            said(far),
            "mail: lfs is the best with 1.10 s; vsfs follows with 4.10 s (273% more)."
        );
        let close = [1.0, 1.2, 9.0, 9.2, 1.1, 1.2].map(Some);
        assert_eq!(
            said(close),
            "mail: lfs (1.10 s) and vsfs (up to 1.15 s) are too close to call."
        );
        let equal = [1.0, 1.2, 1.2, 1.0, 1.0, 1.2].map(Some);
        assert_eq!(said(equal), "mail: lfs and 2 others are equal with 1.10 s.");
    }

    #[test]
    fn a_configuration_with_a_missing_run_is_not_judged_and_is_counted() {
        let missing = [Some(1.0), None, Some(9.0), Some(9.0), Some(4.0), Some(4.0)];
        assert_eq!(
            said(missing),
            "mail: vsfs is the best with 4.00 s; ffs follows with 9.00 s (125% more). Of 6 runs, 1 \
             are missing."
        );
    }
}
