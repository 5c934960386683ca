//! Keeps a program from running the code of the repository in which it works.

use bowline_protocol::kinds::Level;
use bowline_protocol::{PermissionMode, Remedy, Request, RequestField};

use super::apply::Draft;
use super::{Refusal, RepositoryCode, Wish};
use crate::manifest::Manifest;
use crate::manifest::run::{Flag, RunFlag};

/// Keeps the program from running the repository's own code, in modes that promise no changes without approval.
pub(super) fn keep_out(
    manifest: &Manifest,
    request: &Request,
    wish: &Wish,
    draft: &mut Draft,
) -> Result<(), Refusal> {
    let RepositoryCode::Kept(found) = &wish.repository else { return Ok(()) };
    // Where there is nothing to keep it from, the repository's instructions stay.
    if found.is_empty() || !matches!(request.permission, PermissionMode::Read | PermissionMode::Ask) {
        return Ok(());
    }
    let field = RequestField::Permission.value(request.permission.as_str());
    let how = &manifest.repository;
    let refused = how.refused_files(found);
    let wider = Remedy::set(RequestField::Permission.value(PermissionMode::Edit.as_str()));
    if let Some(reason) = how.refused.as_ref().filter(|_| !refused.is_empty()) {
        let refusal = draft.unsupported(&field, because(reason, &refused));
        // Gemini CLI 0.61.0 reads a repository's `.env` with one prompt, and can be kept from it over ACP.
        let other = manifest.live_format().filter(|format| !is_refused(manifest, format, found));
        return Err(match other.map(|format| Remedy::set(RequestField::Format.value(format))) {
            Some(other) => refusal.remedies([other, Remedy::TrustProject, wider]),
            None => refusal.remedies([Remedy::TrustProject, wider]),
        });
    }
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    // An older program may ignore an option that it does not know, and run the code.
    if let Some(reason) = &wish.unkept {
        let refusal = draft.unsupported(&field, because(reason, &found));
        return Err(refusal.remedies([Remedy::TrustProject, wider]));
    }
    // In this format it uses none of the files.
    if how.never.is_some() {
        return Ok(());
    }
    if let Some(reason) = &how.unproven {
        let text = format!("{}; {}", because(reason, &found), Remedy::TrustProject);
        draft.notice(Level::Warn, "repository_unproven", text);
        return Ok(());
    }
    // `isolate` already leaves out the repository's settings.
    let isolated = request.isolate && manifest.run.flags.get(&RunFlag::Isolate).is_some_and(Flag::is_done);
    if !isolated {
        draft.plain(&how.args);
    }
    for (name, value) in &how.env {
        draft.set_env(&field, name, value.clone());
    }
    let text =
        format!("ignored, because this project is not trusted: {}; {}", listed(&found), Remedy::TrustProject);
    draft.notice(Level::Warn, "repository_ignored", text);
    Ok(())
}

fn because(reason: &str, files: &[&str]) -> String {
    format!("{reason}; this project is not trusted and has {}", listed(files))
}

/// Returns whether a run in this format is refused because of these files too.
fn is_refused(manifest: &Manifest, format: &str, found: &[String]) -> bool {
    !manifest.in_format(format).repository.refused_files(found).is_empty()
}

/// Names the first few files.
fn listed(files: &[&str]) -> String {
    const MOST: usize = 4;
    let first = files.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
