//! Writes the seeds of all targets into the folder of corpora that is named, a folder a target.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpora = std::env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into());
    for target in twin_fuzz::TARGETS {
        let folder = Path::new(&corpora).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (n, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{n}")), seed)?;
        }
    }
    Ok(())
}
