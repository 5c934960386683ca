//! Keeps the requests of an agent to the server for its tools away from proxies, which would read the token.

use bowline_providers::invocation::Invocation;

/// The address of the server for the tools.
const LOOPBACK: &str = "127.0.0.1";

/// Adds loopback to the agent's `NO_PROXY`, if a variable gives it a proxy. Programs read one of the two spellings, or both.
pub(crate) fn past_proxies(invocation: &mut Invocation, variables: &[(String, String)]) {
    let is_proxy = |name: &str| {
        let name = name.to_ascii_uppercase();
        name.ends_with("_PROXY") && name != "NO_PROXY"
    };
    let kept = variables.iter().filter(|(name, _)| invocation.keeps(name));
    let mut names = kept.map(|(name, _)| name).chain(invocation.env.keys());
    if !names.any(|name| is_proxy(name)) {
        return;
    }
    let of = |name: &str| {
        let host = variables.iter().find(|(known, _)| known == name && invocation.keeps(known));
        invocation.env.get(name).or(host.map(|(_, value)| value)).cloned().filter(|value| !value.is_empty())
    };
    let (upper, lower) = (of("NO_PROXY"), of("no_proxy"));
    // A program that reads the spelling which is not set has to skip the hosts of the other one, too.
    let values = [("NO_PROXY", upper.clone().or(lower.clone())), ("no_proxy", lower.or(upper))];
    for (name, value) in values {
        let is_there = value
            .as_deref()
            .is_some_and(|it| it.split(',').any(|host| matches!(host.trim(), LOOPBACK | "*")));
        let value = match value {
            Some(value) if is_there => value,
            Some(value) => format!("{value},{LOOPBACK}"),
            None => LOOPBACK.to_owned(),
        };
        invocation.env.insert(name.to_owned(), value);
    }
}
