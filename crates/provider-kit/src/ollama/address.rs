//! Parses the address of a server, in every usual notation.

use std::fmt;

use crate::Error;

/// Ollama's own port.
const PORT: u16 = 11434;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    /// The prefix of the API's paths; empty, or with a `/` before and none behind.
    pub(super) prefix: String,
}

impl Address {
    /// Reads `host`, `host:port` or `http://host:port/prefix`.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::new(format!("`{text}` is not the address of an Ollama server: {why}"));
        let text_of = text.trim();
        let (rest, usual) = match text_of.split_once("://") {
            Some(("http", rest)) => (rest, 80),
            Some(("https", _)) => {
                return Err(wrong("https is not supported; use a proxy on this machine"));
            }
            Some((scheme, _)) => return Err(wrong(&format!("`{scheme}` is not supported"))),
            None => (text_of, PORT),
        };
        let (authority, prefix) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.rsplit_once(':') {
            // A bare IPv6 address has colons and no port.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("the port is not a number"))?)
            }
            Some(_) | None => (authority, usual),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@') {
            return Err(wrong("it has no host"));
        }
        // A server can listen on all addresses; a client has to choose one.
        let host = if host == "0.0.0.0" { "127.0.0.1" } else { host };
        let prefix = prefix.trim_end_matches('/');
        if prefix.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("its path contains a blank"));
        }
        Ok(Self { host: host.to_owned(), port, prefix: prefix.to_owned() })
    }

    /// Returns the host in the notation of HTTP.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_many_forms() {
        for (text, expected) in [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("box", "http://box:11434"),
            ("http://box", "http://box:80"),
            ("http://box:1/route/", "http://box:1/route"),
            ("::1", "http://[::1]:11434"),
            ("[::1]:9", "http://[::1]:9"),
        ] {
            assert_eq!(Address::parse(text).map(|it| it.to_string()).as_deref(), Ok(expected), "{text}");
        }
        for text in ["https://box", "ftp://box", "", "box:port", "http://", "a b", "http://x/a b"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
