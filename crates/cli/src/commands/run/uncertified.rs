//! A notice about a program whose installed version is not certified.
//!
//! The version is queried while the agent works, so the run does not wait for it. The library caches it.

use bowline::certificate::Certificate;
use bowline::detect::{self, Search};
use bowline_providers::manifest::Manifest;
use bowline_providers::{catalogue, compat};
use tokio::task::JoinHandle;

/// Starts the query, if Bowline has a certified version of the provider's program.
pub(super) fn ask(manifest: &'static Manifest) -> Option<JoinHandle<Option<String>>> {
    // A user's own manifest was not certified.
    let manifest = catalogue::by_name(&manifest.name).filter(|built_in| std::ptr::eq(*built_in, manifest))?;
    let certified = compat::certified(&manifest.name)?;
    Some(tokio::spawn(async move {
        // Other code reports a program that is missing or prints no version.
        let found = detect::find(manifest, None, &Search::from_env()).ok()?;
        let version = detect::version(&found).await.ok()?.to_string();
        let here = Certificate::find(&manifest.name, &version);
        line(&manifest.title, &version, certified, &manifest.name, here.as_ref())
    }))
}

/// Returns the notice, if the query has ended.
pub(super) async fn answer(asked: Option<JoinHandle<Option<String>>>) -> Option<String> {
    let asked = asked?;
    if asked.is_finished() {
        return asked.await.ok().flatten();
    }
    // A dropped `JoinHandle` only detaches its task (tokio).
    asked.abort();
    None
}

fn line(
    title: &str,
    version: &str,
    certified: &str,
    name: &str,
    here: Option<&Certificate>,
) -> Option<String> {
    match here {
        Some(here) if here.holds() => None,
        Some(here) => {
            let failed = here.failed.join(", ");
            Some(format!("{title} {version} failed `bowline certify {name}` here: {failed}"))
        }
        None if version == certified => None,
        None => Some(format!(
            "{title} {version} is not certified, {certified} is; `bowline certify {name}` checks it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Certificate, line};

    #[test]
    fn only_another_version_is_worth_a_line() {
        let line = |version: &str, here: Option<&Certificate>| line("Agent", version, "1.2.0", "agent", here);
        let found = |failed: &[&str]| {
            let failed = failed.iter().map(|case| (*case).to_owned()).collect();
            Certificate::new("agent", "1.3.0", bowline_protocol::Timestamp::EPOCH, failed)
        };
        assert_eq!(line("1.2.0", None), None);
        assert_eq!(
            line("1.3.0", None).as_deref(),
            Some("Agent 1.3.0 is not certified, 1.2.0 is; `bowline certify agent` checks it")
        );
        assert_eq!(line("1.3.0", Some(&found(&[]))), None, "it was certified here");
        assert_eq!(
            line("1.3.0", Some(&found(&["image", "edit"]))).as_deref(),
            Some("Agent 1.3.0 failed `bowline certify agent` here: image, edit")
        );
    }
}
