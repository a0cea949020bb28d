//! The picture of a result in the README: two logs that are cleaned, drawn as `compare --html` draws them.

use std::path::Path;

use twin_lab::{Config, Workload, page, simulate_with_history};
use twin_trace::replay::Pace;

const CONFIGS: [&str; 2] =
    ["lfs:size=128M,cache=4M,victim=greedy", "lfs:size=128M,cache=4M,victim=twin,placement=twin"];
const WORKLOAD: &str = "zipf:writes=100000";

/// What a page has in its head, for a picture that stands alone and is read in the dark, too.
const STYLE: &str = "\
    text{font-family:system-ui,sans-serif;fill:#1c2430}.title{font-size:15px;font-weight:600}\
    .tick{font-size:11px}.axis{font-size:12px}.name{font-size:17px;font-weight:600}\
    .grid{stroke:#e6eaf0}.mark{stroke:#5b6676;stroke-dasharray:6 4}.back{fill:#fff}\
    @media (prefers-color-scheme:dark){text{fill:#e8ecf2}.grid{stroke:#2c3644}.back{fill:#10151c}}";
const WIDTH: usize = 620;
const HEIGHT: usize = 330;
const NAME: usize = 34;

/// The drawings of a page, two a log, under the names of the logs.
fn picture(page: &str) -> String {
    let drawings: Vec<&str> =
        page.split("<svg").skip(1).map(|part| part.split_once("</svg>").unwrap().0).collect();
    assert_eq!(drawings.len(), 2 * CONFIGS.len());
    let height = CONFIGS.len() * (NAME + HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\"><style>{STYLE}</style>\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
        2 * WIDTH
    );
    for (row, (name, pair)) in CONFIGS.iter().zip(drawings.chunks(2)).enumerate() {
        let top = row * (NAME + HEIGHT);
        out += &format!("<text class=\"name\" x=\"20\" y=\"{}\">{name}</text>\n", top + 24);
        for (column, drawing) in pair.iter().enumerate() {
            let (x, y) = (column * WIDTH, top + NAME);
            out += &format!(
                "<svg x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\"{drawing}</svg>\n"
            );
        }
    }
    out + "</svg>\n"
}

/// To draw it anew, run the tests with TWINFS_BLESS=1 (`cargo xtask golden`).
#[test]
fn the_golden_picture_of_the_readme_is_what_a_run_draws() {
    let workload = Workload::Generated(WORKLOAD.into(), 1);
    let run = |name: &&str| {
        let config = Config::parse(name).unwrap();
        simulate_with_history(&config, &workload, Pace::Asap).unwrap()
    };
    let runs: Vec<_> = CONFIGS.iter().map(run).collect();
    let drawn = picture(&page(WORKLOAD, &runs, &[]));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/cleaning.svg");
    if std::env::var_os("TWINFS_BLESS").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == kept, "docs/pictures/cleaning.svg is not what is drawn now");
}
