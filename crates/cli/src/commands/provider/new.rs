//! `bowline provider new`: the beginning of an executable provider, complete and ready to be changed.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bowline_provider::templates;

use crate::args::provider::{NewArgs, TemplateLanguage};
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;

/// The name in the templates, which the new name replaces.
const NAME: &str = "minimal-provider";

/// A file to be written.
struct TemplateFile {
    path: PathBuf,
    text: String,
    mode: u32,
}

/// Writes the files, and says what to do next.
pub(super) fn run(args: &NewArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let name = &args.name;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(plain) {
        return Err(CommandError::new(Fault::Usage, format!("`{name}` cannot be the name of a provider"))
            .hint("use lowercase letters, digits and `-`, and begin with a letter"));
    }
    if args.kit.is_some() && args.lang != TemplateLanguage::Rust {
        return Err(CommandError::new(Fault::Usage, "`--kit` applies to `--lang rust` only"));
    }
    let files = files(args)?;
    // All or nothing: what is there already is looked for before anything is written.
    if let Some(there) = files.iter().map(|file| &file.path).find(|path| path.symlink_metadata().is_ok()) {
        let message = format!("`{}` already exists", there.display());
        return Err(CommandError::new(Fault::Usage, message)
            .hint("choose another name, or another directory with `--dir`; nothing was written"));
    }
    for file in &files {
        write(file).map_err(|error| {
            let message = format!("could not write `{}`", file.path.display());
            CommandError::new(Fault::Configuration, message).caused_by(error)
        })?;
    }
    stdout.print(&next(args, &files))
}

fn files(args: &NewArgs) -> Result<Vec<TemplateFile>, CommandError> {
    let (name, dir) = (&args.name, &args.dir);
    let named = |text: &str| text.replace(NAME, name);
    let script = |ending: &str, text: &str| {
        vec![TemplateFile { path: dir.join(format!("{name}.{ending}")), text: named(text), mode: 0o755 }]
    };
    Ok(match args.lang {
        TemplateLanguage::Python => script("py", templates::PYTHON),
        TemplateLanguage::Sh => script("sh", templates::SH),
        TemplateLanguage::Rust => {
            let mut cargo = templates::CARGO.replace("{name}", name);
            if let Some(kit) = &args.kit {
                // Quoted as TOML quotes: backslashes and quotation marks of a path are its own.
                let path = format!("{:?}", self::kit(kit)?.display().to_string());
                cargo = cargo.replace(
                    "bowline-provider = \"0.1\"",
                    &format!("bowline-provider = {{ path = {path} }}"),
                );
            }
            let file = |path: &str, text: String| TemplateFile {
                path: dir.join(name).join(path),
                text,
                mode: 0o644,
            };
            vec![
                file("Cargo.toml", cargo),
                file("src/main.rs", named(templates::RUST)),
                file(".gitignore", "/target\n".to_owned()),
            ]
        }
    })
}

/// Finds the crate in a directory: the crate itself, or a checkout that has it.
fn kit(dir: &Path) -> Result<PathBuf, CommandError> {
    let is_kit = |dir: &PathBuf| {
        let text = std::fs::read_to_string(dir.join("Cargo.toml"));
        text.is_ok_and(|text| text.contains("name = \"bowline-provider\""))
    };
    let found = [dir.to_owned(), dir.join("crates/provider-kit")].into_iter().find(is_kit);
    let message = format!("`--kit {}` has no crate `bowline-provider`", dir.display());
    let found = found.ok_or_else(|| {
        CommandError::new(Fault::Usage, message)
            .hint("name a checkout of Bowline, or its `crates/provider-kit`")
    })?;
    found.canonicalize().map_err(|error| {
        CommandError::new(Fault::Usage, format!("could not resolve `{}`", found.display())).caused_by(error)
    })
}

fn write(file: &TemplateFile) -> std::io::Result<()> {
    if let Some(dir) = file.path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(&file.path)?;
    out.write_all(file.text.as_bytes())
}

/// Describes the written files and the next steps.
fn next(args: &NewArgs, files: &[TemplateFile]) -> String {
    let mut text: String = files.iter().map(|file| format!("wrote {}\n", file.path.display())).collect();
    let name = &args.name;
    let program = match args.lang {
        TemplateLanguage::Rust => {
            let dir = args.dir.join(name);
            if args.kit.is_none() {
                text.push_str(
                    "\nthe crate `bowline-provider` is not on the registry yet: in Cargo.toml, point to a checkout of Bowline\n  \
                     bowline-provider = { path = \"CHECKOUT/crates/provider-kit\" }\nor run this command again with `--kit CHECKOUT`\n",
                );
            }
            text.push_str(&format!(
                "\nbuild it:\n  cargo build --manifest-path {}\n",
                dir.join("Cargo.toml").display()
            ));
            dir.join("target/debug").join(name)
        }
        TemplateLanguage::Python | TemplateLanguage::Sh => files[0].path.clone(),
    };
    let user = bowline_config::Places::from_env(None).user;
    let providers = user.map_or_else(|| "~/.config/bowline/providers".into(), |dir| dir.join("providers"));
    let providers = providers.display();
    let program = shown(&program);
    let absolute = std::path::absolute(&program).unwrap_or_else(|_| PathBuf::from(&program));
    text.push_str(&format!(
        "\ntry it, and test it against the contract:
  echo '{{\"prompt\":\"Hello, world!\"}}' | {program} generate
  bowline run --executable {program} \"Hello, world!\"
  bowline certify --executable {program}

to use it by its name, write this to {providers}/{name}.toml:
  kind = \"executable\"
  name = \"{name}\"
  path = {:?}
",
        absolute.display().to_string()
    ));
    text
}

/// Formats a path with a slash, so that a shell does not look it up on `PATH`.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains('/') { text } else { format!("./{text}") }
}
