//! Requests without their secrets: the headers and addresses that the ledger keeps.

/// Headers with a secret.
const SECRET: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "x-auth-token",
];

/// Query parameters with a secret.
const SECRET_PARAMETERS: &[&str] = &["key", "api_key", "access_token", "token"];

/// The replacement of a secret.
const MASK: &str = "***";

/// Returns the value of a header without its secret. The scheme of an authorization stays.
pub(crate) fn header(name: &str, value: &str) -> String {
    if !SECRET.contains(&name) {
        return value.to_owned();
    }
    match value.split_once(' ') {
        Some((scheme, _)) if name.ends_with("authorization") => format!("{scheme} {MASK}"),
        _ => MASK.to_owned(),
    }
}

/// Returns an address without the keys in its query.
pub(crate) fn path(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.contains(&name) => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_stays() {
        assert_eq!(header("authorization", "Bearer sk-1"), "Bearer ***");
        assert_eq!(header("authorization", "sk-1"), "***");
        assert_eq!(header("x-api-key", "sk 1"), "***");
        assert_eq!(header("user-agent", "x/1"), "x/1");
        assert_eq!(
            path("/v1beta/models/m:generateContent?key=k1&alt=sse"),
            "/v1beta/models/m:generateContent?key=***&alt=sse"
        );
        assert_eq!(path("/v1/models"), "/v1/models");
    }
}
