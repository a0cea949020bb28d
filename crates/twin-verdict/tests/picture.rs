//! The picture of a result in docs/comparisons.md: two logs that are cleaned, drawn by `compare --html`.

use std::path::Path;

use twin_lab::{Config, Workload, simulate_with_history};
use twin_report::Form;
use twin_trace::replay::Pace;
use twin_verdict::{Comparison, MEASURES, Seeded};

const CONFIGS: [&str; 2] =
    ["lfs:size=128M,cache=4M,victim=greedy", "lfs:size=128M,cache=4M,victim=twin,placement=twin"];
const WORKLOAD: &str = "zipf:writes=100000";

const WIDTH: usize = 440;
const HEIGHT: usize = 330;
const NAME: usize = 34;
const COLUMNS: usize = 3;

/// What stands between two texts of a page.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

/// The drawings of the volumes, three for each log, under the names of the logs, with the page's
/// style.
fn picture(page: &str) -> String {
    let volumes = between(page, "<h2>The volumes at the end</h2>", "<h2>");
    let drawings: Vec<&str> = volumes
        .split("<svg viewBox=\"0 0 440")
        .skip(1)
        .map(|part| part.split_once("</svg>").unwrap().0)
        .collect();
    assert_eq!(drawings.len(), COLUMNS * CONFIGS.len());
    let height = CONFIGS.len() * (NAME + HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\"><style>{}</style>\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
        COLUMNS * WIDTH,
        between(page, "<style>", "</style>")
    );
    for (row, (name, of_log)) in CONFIGS.iter().zip(drawings.chunks(COLUMNS)).enumerate() {
        let top = row * (NAME + HEIGHT);
        let y = top + 24;
        out += &format!("<text class=\"title\" x=\"10\" y=\"{y}\">{name}</text>\n");
        for (column, drawing) in of_log.iter().enumerate() {
            let (x, y) = (column * WIDTH, top + NAME);
            let (height, rest) = drawing.split_once('"').unwrap();
            out += &format!(
                "<svg x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{}\" \
                 viewBox=\"0 0 {WIDTH}{height}\"{rest}</svg>\n",
                height.trim()
            );
        }
    }
    out + "</svg>\n"
}

/// To draw it anew, run the tests with TWINFS_BLESS=1 (`cargo xtask nightly golden --accept`).
#[test]
fn the_golden_picture_of_the_readme_is_what_a_run_draws() {
    let workload = Workload::Generated(WORKLOAD.into(), 1);
    let run = |name: &&str| {
        let config = Config::parse(name).unwrap();
        let (figures, history) = simulate_with_history(&config, &workload, Pace::Asap).unwrap();
        (config, Seeded { figures, history, all: Vec::new() })
    };
    let runs: Vec<_> = CONFIGS.iter().map(run).collect();
    let comparison = Comparison {
        title: WORKLOAD,
        shared: "",
        verdict: None,
        why_shared: "",
        measure: MEASURES.default_entry(),
        runs: &runs,
        not_run: &[],
        details: false,
    };
    let drawn = picture(&comparison.report().write(Form::Html));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/cleaning.svg");
    if std::env::var_os("TWINFS_BLESS").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == kept, "docs/pictures/cleaning.svg is not what is drawn now");
}
