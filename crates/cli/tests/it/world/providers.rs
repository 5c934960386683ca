//! Providers of the user, by a manifest.

use std::path::Path;

use super::World;

impl World {
    /// Adds a provider of the user that speaks ACP, with a line of `[run]` for what its host offers it.
    pub(crate) fn acp_provider(&self, name: &str, program: &Path, offer: &str) {
        let manifest = format!(
            r#"
name = "{name}"
title = "a test agent that speaks ACP"
adapter_id = "test.{name}"
adapter_version = "0.1.0"
vendor = "test"
signature = ""
program = "{}"
prompt = "protocol"
default_format = "acp"
models = [{{ id = "default", name = "Default Model" }}]
default_model = "default"
max_tokens = 4096

[formats.acp]
dialect = "acp"
shape = "lines"

[run]
{offer}

[permission.read]

[permission.ask]

[permission.edit]

[permission.yolo]
"#,
            program.display()
        );
        let folder = self.path("work/.config/bowline/providers");
        std::fs::create_dir_all(&folder).expect("created");
        std::fs::write(folder.join(format!("{name}.toml")), manifest).expect("written");
    }
}
