//! `ax-grok`, the wrapper that the adapter protocol names. Generic dialects read it.

use crate::catalogue::ProviderEntry;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = provider_entry!("grok");
