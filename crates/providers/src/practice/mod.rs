//! The practice agent: it prints the formats of other programs, and their dialects read it.

use crate::catalogue::ProviderEntry;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = provider_entry!("practice");
