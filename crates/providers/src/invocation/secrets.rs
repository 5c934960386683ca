//! Which values of a run must not be stored or shown.
//!
//! A variable is secret by its name ([`Invocation::is_secret`]). Two more kinds are found here: credentials inside the
//! addresses that variables carry (`HTTP_PROXY=http://user:password@proxy`), and a secret that a variable of another name
//! repeats (`OTHER=${API_KEY}`), where the name does not show it.
//!
//! Short values are left alone, because masking `true` or `test` would spoil every text that contains it:
//! a value that is looked for under other names has at least [`SHORTEST_COPY`] bytes, a password of an address that is
//! looked for by itself has at least [`SHORTEST_PASSWORD`]. A shorter password is masked together with its user name.

use std::collections::BTreeMap;

use super::{Invocation, mcp};

/// The shortest secret that is looked for under other names, in bytes.
pub const SHORTEST_COPY: usize = 8;

/// The shortest password of an address that is masked without the user name before it, in bytes.
pub const SHORTEST_PASSWORD: usize = 6;

/// The shortest user name of an address that is taken for a token (`https://TOKEN@host`), in bytes.
const SHORTEST_TOKEN: usize = 16;

/// The shortest value that is worth masking at all, in bytes.
const SHORTEST: usize = 4;

impl Invocation {
    /// Adds the secrets that variables carry to the values that are masked wherever the run is shown or stored.
    ///
    /// `host` is the environment of this process, `asked` the variables of the request.
    pub fn find_secrets(&mut self, host: &[(String, String)], asked: &BTreeMap<String, String>) {
        let set: Vec<(&str, &str)> =
            asked.iter().chain(&self.env).map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut found: Vec<String> = Vec::new();
        for (name, value) in host.iter().map(|(name, value)| (name.as_str(), value.as_str())) {
            // A variable that does not reach the agent matters only if another one carries its value there.
            let reaches = self.keeps(name) || set.iter().any(|(_, other)| other.contains(value));
            if reaches && self.is_secret(name) && value.len() >= SHORTEST_COPY {
                found.push(value.to_owned());
            }
            if self.keeps(name) {
                found.extend(in_addresses(name, value));
            }
        }
        for (name, value) in set {
            if self.is_secret(name) && value.len() >= SHORTEST_COPY {
                found.push(value.to_owned());
            }
            found.extend(in_addresses(name, value));
        }
        self.secret_values.extend(found);
        // The longest first: a secret may contain another one.
        self.secret_values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.secret_values.dedup();
    }
}

/// Finds the credentials inside the addresses of a value, as they are written and as a program decodes them.
fn in_addresses(name: &str, value: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (place, _) in value.match_indices("://") {
        let rest = &value[place + 3..];
        let end =
            rest.find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace());
        found.extend(in_authority(&rest[..end.unwrap_or(rest.len())]));
    }
    // `ALL_PROXY=user:password@host:1080` is an address as well.
    if !value.contains("://") && name.to_ascii_uppercase().ends_with("_PROXY") {
        found.extend(in_authority(value));
    }
    let parameters = mcp::in_query(value).into_iter().filter(|value| value.len() >= SHORTEST_COPY);
    found.extend(parameters.map(str::to_owned));
    // Both forms: the program may print the address as it is, or the decoded password in an error.
    let decoded: Vec<String> = found.iter().filter_map(|secret| percent_decoded(secret)).collect();
    found.extend(decoded);
    // After decoding, which makes values shorter.
    found.retain(|secret| secret.len() >= SHORTEST);
    found
}

/// Finds the credentials in `user:password@host:port`.
fn in_authority(authority: &str) -> Vec<String> {
    // The last `@`: a password may contain one.
    let Some((credentials, _)) = authority.rsplit_once('@') else { return Vec::new() };
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let mut found = Vec::new();
    if !password.is_empty() {
        found.push(credentials.to_owned());
    }
    if password.len() >= SHORTEST_PASSWORD {
        found.push(password.to_owned());
    }
    if user.len() >= SHORTEST_TOKEN {
        found.push(user.to_owned());
    }
    found
}

/// Returns what `%40` and the like stand for, if a text has any and they are text.
fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| bytes[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok().filter(|decoded| decoded != text)
}

#[cfg(test)]
mod tests {
    use super::super::{Wish, build};
    use super::*;

    fn check(name: &str, value: &str, expected: &[&str]) {
        assert_eq!(in_addresses(name, value), expected, "{name}={value}");
    }

    #[test]
    fn credentials_of_addresses_are_found() {
        check("HTTP_PROXY", "http://user:password@proxy:3128", &["user:password", "password"]);
        check("X", "postgres://u:p@ss/word@db/x", &[]);
        check("X", "postgres://user:secret1@db/x?sslmode=on", &["user:secret1", "secret1"]);
        // A short password is masked with its user, and one that is too short even so is not.
        check("X", "http://me:pw@host/", &["me:pw"]);
        check("X", "http://a:b@host/", &[]);
        // As it is written, and as a program decodes it.
        let all = ["user:p%40ss%3Aword", "p%40ss%3Aword", "user:p@ss:word", "p@ss:word"];
        check("HTTPS_PROXY", "http://user:p%40ss%3Aword@proxy", &all);
        check("X", "http://u:%zz%4@h", &["u:%zz%4"]);
        // Several in one value, in a text, and without a scheme.
        let two = ["a:first-one", "first-one", "b:second-one", "second-one"];
        check("X", "http://a:first-one@x,http://b:second-one@y", &two);
        check("X", "see <https://me:hunter2!@host> there", &["me:hunter2!", "hunter2!"]);
        check("ALL_PROXY", "user:password@host:1080", &["user:password", "password"]);
        check("GREETING", "user:password@host", &[]);
        // A token instead of a user; a plain user is none.
        check("X", "https://abcdefghijklmnop@host/x.git", &["abcdefghijklmnop"]);
        check("X", "ssh://git@host/x.git", &[]);
        check("X", "https://host/?api_key=12345678&n=1", &["12345678"]);
        check("X", "https://host/a@b", &[]);
    }

    #[test]
    fn what_is_not_text_is_not_decoded() {
        assert_eq!(percent_decoded("a%ff"), None);
        assert_eq!(percent_decoded("100%"), None);
        assert_eq!(percent_decoded("%é"), None);
        assert_eq!(percent_decoded("a%20b").as_deref(), Some("a b"));
    }

    #[test]
    fn a_copied_secret_is_found_by_its_value() {
        let manifest = crate::catalogue::by_name("claude").expect("a provider");
        let request = bowline_protocol::Request { prompt: "hi".to_owned(), ..Default::default() };
        let mut made = build(manifest, &request, &Wish::default()).expect("a command");
        made.env.insert("COPY".to_owned(), "Bearer sk-made-up-key".to_owned());
        let host = [
            ("SOME_API_KEY".to_owned(), "sk-made-up-key".to_owned()),
            ("OTHER_API_KEY".to_owned(), "sk-not-copied".to_owned()),
            ("FLAG_TOKEN".to_owned(), "Bearer".to_owned()),
        ];
        made.find_secrets(&host, &BTreeMap::new());
        assert_eq!(made.secret_values, ["sk-made-up-key"], "the copied one, and no short one");
        assert_eq!(made.preview().env["COPY"], "Bearer ***");
    }
}
