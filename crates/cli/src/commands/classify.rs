//! `bowline classify`: what kind of failure an error text is.

use bowline_providers::failure::{self, Evidence};
use bowline_providers::{ansi, views};

use super::input;
use crate::args::ClassifyArgs;
use crate::error::CommandError;
use crate::ui::Stdout;
use crate::{suggest, time};

/// How much of an error text is looked at: its end, where the reason stands.
const LOOKED_AT: usize = 64 * 1024;

/// Classifies a file or standard input.
pub(crate) fn run(args: &ClassifyArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let provider = args.provider.as_deref().map(suggest::provider).transpose()?;
    let exit = input::exit(&args.ending)?;
    let now = time::moment(args.now.as_deref())?;
    let mut bytes = Vec::new();
    input::open(args.file.as_deref())?.each_chunk(|chunk| {
        bytes.extend_from_slice(chunk);
        // Cut seldom, so that a long text costs no more than its length.
        if bytes.len() > 2 * LOOKED_AT {
            bytes.drain(..bytes.len() - LOOKED_AT);
        }
        Ok(())
    })?;
    let lossy = String::from_utf8_lossy(&bytes);
    let text = ansi::strip(&lossy);
    let evidence = Evidence { report: None, text: &text, exit, timed_out: args.timed_out };
    let mut failure = failure::classify(&evidence, &now);
    if let (Some(hint), Some(provider)) = (&mut failure.hint, provider) {
        *hint = hint.replace("`bowline certify`", &format!("`bowline certify {}`", provider.name));
    }
    stdout.print(&format!("{}\n", views::failure_object(&failure)))
}
