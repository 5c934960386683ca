//! The beginnings of providers that `bowline provider new` writes. Each is complete, and passes `bowline certify --executable`.

/// In Rust: `src/main.rs`.
pub const RUST: &str = include_str!("../templates/main.rs");

/// In Rust: `Cargo.toml`. `{name}` stands for the provider's name.
pub const CARGO: &str = include_str!("../templates/Cargo.toml.template");

/// In Python, with nothing but its standard library.
pub const PYTHON: &str = include_str!("../templates/provider.py");

/// In POSIX shell, with awk.
pub const SH: &str = include_str!("../templates/provider.sh");
