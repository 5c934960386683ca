//! The kit as programs: the beginnings of providers and the Ollama provider, put through the contract suite.

mod certify;
mod ollama;
mod support;
