//! Answers of commands as programs read them: their JSON is as docs/results.md says, their columns have the same
//! names, and, where Python has them, pandas and DuckDB read both.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use twin_report::schema::{SCHEMA_TEXT, problems};

/// Short runs of the commands that answer; words in capitals are files that are made before.
const ANSWERS: [(&str, &[&str]); 16] = [
    (
        "compare",
        &["compare", "lfs:size=64M", "ffs:size=64M", "-w", "zipf:writes=200,file-bytes=4M"],
    ),
    (
        "advise",
        &[
            "advise",
            "-w",
            "zipf:writes=100,file-bytes=1M",
            "--with",
            "size=32M",
            "--budget",
            "60",
            "--no-confirm",
        ],
    ),
    ("run", &["run", "EXPERIMENT"]),
    ("runs", &["run", "EXPERIMENT", "--list"]),
    ("diff", &["diff", "STORE", "STORE"]),
    ("server", &["compare", "--server", "SERVER"]),
    (
        "frontier",
        &[
            "frontier",
            "-w",
            "zipf:writes=200,file-bytes=1M",
            "--config",
            "lfs:size=64M",
            "--policies",
            "delayed,update",
            "--ages",
            "5s",
            "--instants",
            "1",
        ],
    ),
    (
        "volume",
        &["volume", "--blocks", "500", "--volumes", "2", "--placement", "none,twin", "--seed", "1"],
    ),
    (
        "cache",
        &["cache", "TRACE", "--policies", "lru,belady", "--sizes", "64K,1M", "--disk", "hp97560"],
    ),
    ("bench", &["bench", "--sim", "lfs:size=64M", "--sim", "ffs:size=64M", "small:files=20"]),
    ("layout", &["layout", "IMAGE"]),
    ("files", &["layout", "IMAGE", "--files"]),
    ("history", &["layout", "--snapshots", "SNAPSHOTS"]),
    (
        "age",
        &[
            "age",
            "--profile",
            "agrawal",
            "--size",
            "16M",
            "--full",
            "40%",
            "--turnover",
            "1",
            "-o",
            "NEW",
        ],
    ),
    ("arena", &["arena", "TASK", "fifo", "--held-out"]),
    ("forecast", &["forecast", "KEPT", "ffs:cache=2M", "-t", "TRACE", "--try", "cache=4M"]),
];

const EXPERIMENT: &str = r#"
workloads = ["zipf:writes=100,file-bytes=1M"]
with = "size=64M"
seeds = 2
configs = ["ffs"]
[[config]]
base = "lfs"
grid = { cache = ["2M", "4M"] }
"#;

const TASK: &str = r#"
kind = "replacement"
rivals = ["lru", "fifo"]
score = { device-time = 1, write-cost = 1, at-risk = 1 }
budget = { cpu = 50, cpu-python = 50, call = "1s", memory = "4G" }
[study]
disk = "hp97560"
sizes = [0.1]
go-on = 0.1
seconds = 300
public = [{ workload = "zipf:file-bytes=1M,writes=300,reads=50%" }]
held-out = [{ workload = "zipf:file-bytes=1M,writes=300,reads=60%" }]
[simulation]
config = "lfs:size=32M,cache=256K"
go-on = 0.1
seconds = 300
public = [{ workload = "zipf:file-bytes=1M,writes=100,reads=50%" }]
"#;

const SERVER: &str = r#"
[host.main]
cache = "2M"
[disk.a]
model = "hp97560"
[fs.home]
disk = "a"
config = "lfs"
[[client]]
fs = "home"
workload = "zipf:writes=100,file-bytes=1M"
pace = "asap"
"#;

fn twinfs(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The files that the commands need.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("snapshots")).unwrap();
        std::fs::write(dir.join("server.toml"), SERVER).unwrap();
        std::fs::write(dir.join("experiment.toml"), EXPERIMENT).unwrap();
        std::fs::write(dir.join("task.toml"), TASK).unwrap();
        let place = Place(dir);
        let [trace, image, kept] = ["TRACE", "IMAGE", "KEPT"].map(|name| place.path(name));
        twinfs(&["convert", "-w", "small-files:files=60", "-o", &trace]);
        twinfs(&[
            "age",
            "--layout",
            "ffs",
            "--size",
            "16M",
            "--full",
            "40%",
            "--turnover",
            "1",
            "-o",
            &image,
        ]);
        twinfs(&["age", "--layout", "ffs", "--size", "16M", "-t", &trace, "-o", &kept]);
        let snapshot = place.0.join("snapshots/a.snap");
        twinfs(&["snapshot", &image, "-o", snapshot.to_str().unwrap()]);
        place
    }

    fn path(&self, word: &str) -> String {
        let name = match word {
            "TRACE" => "trace.tw",
            "IMAGE" => "image.img",
            "KEPT" => "kept.img",
            "SERVER" => "server.toml",
            "EXPERIMENT" => "experiment.toml",
            "TASK" => "task.toml",
            "STORE" => "experiment.toml.runs",
            "SNAPSHOTS" => "snapshots",
            "NEW" => "new.img",
            word => return word.into(),
        };
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// What a command prints in a form.
    fn printed(&self, command: &[&str], form: &str) -> String {
        let _ = std::fs::remove_file(self.path("NEW"));
        let words: Vec<String> = command.iter().map(|word| self.path(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        twinfs(&[&words[..], &["--format", form]].concat())
    }
}

/// Reads the rows of an answer as Parquet with each of these, none of which needs another.
const READ_PARQUET: &str = r#"
import sys, json
try:
    import duckdb
except ImportError as why:
    print("SKIP", why); sys.exit(0)
try:
    import pandas, pyarrow.parquet
except ImportError:
    pandas = None
try:
    import polars
except ImportError:
    polars = None
for name in sys.argv[1:]:
    rows = json.load(open(name + ".json"))["rows"]
    found = duckdb.sql(f"select * from read_parquet('{name}.parquet')")
    lines = duckdb.sql(f"select * from read_csv('{name}.csv')")
    assert found.columns == lines.columns, (name, found.columns, lines.columns)
    all = found.fetchall()
    count = len(all)
    assert count >= len(rows), (name, count, len(rows))
    # Plain members of the first row are the same values.
    first = dict(zip(found.columns, all[0] if all else ()))
    for member, value in (rows[0] if rows else {}).items():
        if isinstance(value, (str, int, float, bool)):
            assert first[member] == value, (name, member, value, first[member])
    if pandas:
        table = pyarrow.parquet.read_table(name + ".parquet")
        assert table.num_rows == count and table.column_names == found.columns, name
        frame = pandas.read_parquet(name + ".parquet")
        assert len(frame) == count, name
    if polars:
        frame = polars.read_parquet(name + ".parquet")
        assert frame.height == count and frame.columns == found.columns, name
others = [one for one, found in (("pandas", pandas), ("polars", polars)) if found]
print("READ", len(sys.argv) - 1, *others)
"#;

#[test]
fn the_rows_of_every_answer_are_read_as_parquet() {
    let place = Place::new("results-parquet");
    let mut names = Vec::new();
    for (name, command) in ANSWERS {
        let file = place.0.join(format!("{name}.parquet"));
        for form in ["json", "csv"] {
            let with_file = [command, &["--parquet", file.to_str().unwrap()]].concat();
            let printed = place.printed(&with_file, form);
            std::fs::write(place.0.join(format!("{name}.{form}")), printed).unwrap();
        }
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
        names.push(place.0.join(name));
    }
    let python = std::env::var("TWIN_PYTHON").unwrap_or_else(|_| "python3".into());
    let out = Command::new(&python).args(["-c", READ_PARQUET]).args(&names).output();
    let Ok(out) = out else {
        println!("skipped: there is no {python} (TWIN_PYTHON names one that has duckdb)");
        return;
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.starts_with("READ 16") || said.starts_with("SKIP"), "{said}");
    println!("{said}");
}

/// The number of sentences of a verdict: a point at an end, before a space or a line.
fn lines_that_end(verdict: &str) -> bool {
    verdict.lines().all(|line| line.ends_with(['.', ':']))
}

/// Every command that answers: what JSON, comma-separated values, the terminal and the page have is held
/// against each other and against the schema.
#[test]
fn answers_are_as_documented_and_begin_with_their_verdict_in_every_form() {
    let schema: Value = serde_json::from_str(SCHEMA_TEXT).unwrap();
    let place = Place::new("results");
    for (name, command) in ANSWERS {
        let json = place.printed(command, "json");
        let answer: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(problems(&schema, &answer), [""; 0], "{name}");
        assert_eq!(answer["command"], command[0], "{name}");
        let verdict = answer["verdict"].as_str().unwrap();
        assert!(lines_that_end(verdict), "{name}: {verdict}");
        let csv = place.printed(command, "csv");
        let names = csv.lines().next().unwrap();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,".contains(c);
        assert!(names.chars().all(is_plain), "{name}: {names}");
        for row in answer["rows"].as_array().unwrap() {
            for (member, value) in
                row.as_object().unwrap().iter().filter(|(_, value)| is_single(value))
            {
                assert!(
                    names.split(',').any(|own| own == member),
                    "{name}: {member}: {value}: {names}"
                );
            }
        }
        let table = place.printed(command, "table");
        assert!(table.starts_with(verdict), "{name}: {table}");
        let page = place.printed(command, "html");
        let (_, behind) = page.split_once("</h1>").unwrap();
        assert!(behind.starts_with("<div class=\"verdict\"><p>"), "{name}: {}", &behind[..200]);
        assert!(!page.contains(['│', '┌', '┆', '─']), "{name}: lines of a terminal on a page");
    }
}

fn is_single(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// The tables of docs/results.md are those of the schema.
#[test]
fn the_document_names_every_member_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA_TEXT).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut expected = String::new();
    let (mut rest, mut found) = (text.as_str(), 0);
    while let Some((before, behind)) = rest.split_once("<!-- members of ") {
        let (which, behind) = behind.split_once(" -->\n").unwrap();
        let (_, after) = behind.split_once("<!-- end -->").unwrap();
        let members = match which {
            "answer" => &schema["properties"],
            command => &schema["$defs"][command]["properties"],
        };
        expected += &format!("{before}<!-- members of {which} -->\n{}<!-- end -->", table(members));
        (rest, found) = (after, found + 1);
    }
    expected += rest;
    assert_eq!(found, 1 + schema["properties"]["command"]["enum"].as_array().unwrap().len());
    if std::env::var_os("TWIN_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "docs/results.md is not as the schema (TWIN_BLESS=1 writes it)");
}

fn table(members: &Value) -> String {
    let row = |(name, rule): (&String, &Value)| {
        let about = rule["description"].as_str().unwrap_or_default();
        format!("| `{name}` | {about} |\n")
    };
    let rows: String = members.as_object().unwrap().iter().map(row).collect();
    format!("\n| name | what |\n|---|---|\n{rows}\n")
}

/// Reads an answer in both forms with pandas and DuckDB, and says how many rows each found.
const READ: &str = r#"
import sys, json
try:
    import pandas, duckdb
except ImportError as why:
    print("SKIP", why); sys.exit(0)
for name in sys.argv[1:]:
    answer = json.load(open(name + ".json"))
    expected = len(answer["rows"])
    csv = pandas.read_csv(name + ".csv")
    rows = pandas.json_normalize(answer["rows"], sep="_")
    one = lambda text: duckdb.sql(text).fetchall()[0][0]
    unnested = f"select unnest(rows) from read_json('{name}.json')"
    assert len(rows) == one(f"select count(*) from ({unnested})") == expected, (name, len(rows))
    lines = duckdb.sql(f"select * from read_csv('{name}.csv')")
    count = one(f"select count(*) from read_csv('{name}.csv')")
    # Observers have rows in comma-separated values alone.
    assert len(csv) == count >= expected, (name, len(csv), count, expected)
    assert list(csv.columns) == lines.columns, (name, lines.columns)
    assert one(f"select verdict from read_json('{name}.json')") == answer["verdict"], name
print("READ", len(sys.argv) - 1)
"#;

#[test]
fn pandas_and_duckdb_read_every_answer() {
    let python = std::env::var("TWIN_PYTHON").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import pandas, duckdb"]).output();
    if !has.is_ok_and(|out| out.status.success()) {
        println!("skipped: {python} has no pandas and duckdb (TWIN_PYTHON names one that has)");
        return;
    }
    let place = Place::new("results-python");
    let mut names = Vec::new();
    for (name, command) in ANSWERS {
        for form in ["json", "csv"] {
            let printed = place.printed(command, form);
            std::fs::write(place.0.join(format!("{name}.{form}")), printed).unwrap();
        }
        names.push(place.0.join(name));
    }
    let out = Command::new(&python).args(["-c", READ]).args(&names).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.starts_with("READ 16"), "{said}");
}
