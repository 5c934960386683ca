//! Turns the data files of the crate from TOML into JSON while it is built.
//!
//! People write TOML. Every start of the command reads one manifest and often the prices, and JSON is read at a fifth of the
//! cost. The tests compare both forms.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script by variables where to write")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    write_json(Path::new("src/prices.toml"), &out.join("prices.json"))?;
    for entry in fs::read_dir("src")? {
        let folder = entry?.path();
        let manifest = folder.join("manifest.toml");
        if let (true, Some(name)) = (manifest.is_file(), folder.file_name()) {
            write_json(&manifest, &out.join(name).with_extension("json"))?;
        }
    }
    Ok(())
}

fn write_json(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let read = fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let table: toml::Table = toml::from_str(&read).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(fs::write(to, serde_json::to_string(&table)?)?)
}
