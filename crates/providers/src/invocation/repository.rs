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
    // An older program may ignore an option that it does not know, and run the code.
    if let Some(reason) = how.refused.as_ref().or(wish.unkept.as_ref()) {
        let reason = format!("{reason}; this project is not trusted and has {}", listed(found));
        let wider = RequestField::Permission.value(PermissionMode::Edit.as_str());
        return Err(draft.unsupported(&field, reason).remedies([Remedy::TrustProject, Remedy::set(wider)]));
    }
    if let Some(reason) = &how.unproven {
        let text = format!(
            "{reason}; this project is not trusted and has {}; {}",
            listed(found),
            Remedy::TrustProject
        );
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
        format!("ignored, because this project is not trusted: {}; {}", listed(found), Remedy::TrustProject);
    draft.notice(Level::Warn, "repository_ignored", text);
    Ok(())
}

/// Names the first few files.
fn listed(files: &[String]) -> String {
    const MOST: usize = 4;
    let first = files.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
