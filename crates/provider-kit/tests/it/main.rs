//! The kit as programs: the contract suite on the templates and on the Ollama provider.

mod certify;
mod ollama;
mod support;
