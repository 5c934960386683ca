//! The templates of `bowline provider new`. Each is a complete provider, and passes `bowline certify --executable`.

/// In Rust: `src/main.rs`.
pub const RUST: &str = include_str!("../templates/main.rs");

/// In Rust: `Cargo.toml`. `{name}` is the provider's name.
pub const CARGO: &str = include_str!("../templates/Cargo.toml.template");

/// In Python, with its standard library only.
pub const PYTHON: &str = include_str!("../templates/provider.py");

/// In POSIX shell, with awk.
pub const SH: &str = include_str!("../templates/provider.sh");
