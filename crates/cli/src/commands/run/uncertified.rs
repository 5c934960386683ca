//! One quiet line about a program that nobody has put through the contract suite in this version.
//!
//! Its version is asked for while it works, not before: nobody waits for it. The answer is kept by the runtime, so that
//! most of the time there is nothing to ask.

use bowline::detect::{self, Search};
use bowline_providers::manifest::Manifest;
use bowline_providers::{catalogue, compat};
use tokio::task::JoinHandle;

/// Begins to find out what is to be said, if the provider's program was ever certified.
pub(super) fn ask(manifest: &'static Manifest) -> Option<JoinHandle<Option<String>>> {
    // A user's own manifest was never tried with it.
    let manifest = catalogue::by_name(&manifest.name).filter(|built_in| std::ptr::eq(*built_in, manifest))?;
    let certified = compat::certified(&manifest.name)?;
    Some(tokio::spawn(async move {
        // A program that is not there, or does not say its version, is told of elsewhere.
        let found = detect::find(manifest, None, &Search::from_env()).ok()?;
        let version = detect::version(&found).await.ok()?;
        line(&manifest.title, &version.to_string(), certified, &manifest.name)
    }))
}

/// Returns what is to be said, if that is known by now.
pub(super) async fn answer(asked: Option<JoinHandle<Option<String>>>) -> Option<String> {
    let asked = asked?;
    if asked.is_finished() {
        return asked.await.ok().flatten();
    }
    asked.abort();
    None
}

fn line(title: &str, version: &str, certified: &str, name: &str) -> Option<String> {
    (version != certified).then(|| {
        format!("{title} {version} is not certified, {certified} is; `bowline certify {name}` checks it")
    })
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn only_another_version_is_worth_a_line() {
        assert_eq!(line("Agent", "1.2.0", "1.2.0", "agent"), None);
        assert_eq!(
            line("Agent", "1.3.0", "1.2.0", "agent").as_deref(),
            Some("Agent 1.3.0 is not certified, 1.2.0 is; `bowline certify agent` checks it")
        );
    }
}
