//! The Ollama provider: models of an Ollama server, by the CLI provider protocol.

fn main() -> std::process::ExitCode {
    bowline_provider::main(&mut bowline_provider::ollama::Ollama::from_env())
}
