//! The pictures of docs/pictures/README.md: each is the first chart of a page, drawn by the command that stands beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of each picture, and the command that draws it, run in a directory of its own.
const GALLERY: [(&str, &str); 5] = [
    (
        "cache",
        "cache work.tw --policies lru,lru-2,arc,lirs,w-tinylfu,sieve,belady --sizes 128K,256K,512K,1M,2M,4M",
    ),
    (
        "frontier",
        "frontier -w zipf:writes=1000,file-bytes=8M --config lfs:size=64M --ages 1s,5s --instants 6",
    ),
    (
        "volume",
        "volume --blocks 2000 --volumes 4 --placement none,sepbit,twin --victim greedy,twin --exponent 0.2,0.6,1.0",
    ),
    ("layout", "layout old.img"),
    ("bench", "bench --sim lfs:size=256M --sim ffs:size=256M small:files=300"),
];

/// What the commands work on.
const BEFORE: [&str; 2] = [
    "convert -w zipf:writes=2000,file-bytes=4M,reads=50% -o work.tw",
    "age --layout ffs --profile agrawal --size 24M --full 70% --seed 3 --turnover 3 -o old.img",
];

fn twinfs(dir: &Path, line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
    let out = command.args(line.split(' ')).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The first chart of a page as a drawing that stands alone.
fn picture(page: &str) -> String {
    let (_, style) = page.split_once("<style>").unwrap();
    let (style, body) = style.split_once("</style>").unwrap();
    let (_, chart) = body.split_once("<svg viewBox=").unwrap();
    let (chart, _) = chart.split_once("</svg>").unwrap();
    let (frame, content) = chart.split_once('>').unwrap();
    // Rules of the page around it are not its own.
    let own: String = style
        .split_inclusive('}')
        .filter(|rule| {
            !["body{", "main", "h1", "table", "th,", "td", "summary", "details"]
                .iter()
                .any(|of| rule.starts_with(of))
        })
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox={frame}><style>{own}</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n{content}</svg>\n"
    )
}

/// To draw them anew, run the tests with TWINFS_BLESS=1 (`cargo xtask nightly golden --accept`).
#[test]
fn the_gallery_is_what_its_commands_draw() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("gallery");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for line in BEFORE {
        twinfs(&dir, line);
    }
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let document = std::fs::read_to_string(pictures.join("README.md")).unwrap();
    for line in BEFORE {
        assert!(document.contains(&format!("    twinfs {line}\n")), "{line}");
    }
    for (name, line) in GALLERY {
        let drawn = picture(&twinfs(&dir, &format!("{line} --format html")));
        let path = pictures.join(format!("{name}.svg"));
        if std::env::var_os("TWINFS_BLESS").is_some() {
            std::fs::write(&path, &drawn).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(drawn == kept, "docs/pictures/{name}.svg is not what is drawn now");
        assert!(document.contains(&format!("    twinfs {line} --html {name}.html\n")), "{line}");
        assert!(document.contains(&format!("({name}.svg)")), "{name}");
    }
}
