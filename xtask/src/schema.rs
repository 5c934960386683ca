//! `cargo xtask schema`: writes the JSON Schema of the protocol, which is checked in so that a change of the wire format
//! shows in review.

use anyhow::{Context, Result};

use crate::{report, sh};

/// Where the schema is, from the root of the workspace.
const FILE: &str = "docs/schema/bowline.schema.json";

/// Writes the schema.
pub fn run() -> Result<()> {
    let file = sh::root().join(FILE);
    let folder = file.parent().expect("the file is in a folder");
    std::fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    std::fs::write(&file, bowline_protocol::schema::document())
        .with_context(|| format!("could not write {FILE}"))?;
    report::line(format_args!("wrote {FILE}"));
    Ok(())
}
