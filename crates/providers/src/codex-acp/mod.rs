//! Codex behind its ACP adapter; `acp` reads it.

use crate::catalogue::ProviderEntry;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = provider_entry!("codex-acp");
