//! The scenarios that ship with the simulator. A test reads them all, and compares the list with the folder.

use super::Scenario;

macro_rules! scenarios {
    ($($name:literal)+) => {
        /// Every scenario, in the order of the names.
        pub(super) const ALL: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),+];
    };
}

scenarios! {
    "bad-gateway"
    "bad-request"
    "billing"
    "close"
    "context-overflow"
    "cut"
    "default"
    "edit"
    "empty"
    "flaky"
    "forbidden"
    "garbage"
    "garbage-once"
    "hang"
    "hang-after-headers"
    "hang-midway"
    "host-tool"
    "host-tool-search"
    "long"
    "loop"
    "max-tokens"
    "not-found"
    "overloaded"
    "quota"
    "rate-limit"
    "recall"
    "refusal"
    "refused"
    "risky"
    "schema"
    "server-error"
    "shell"
    "sleep"
    "slow"
    "slow-start"
    "spend"
    "stream-error"
    "system"
    "text"
    "thinking"
    "throttled"
    "too-large"
    "two-tools"
    "unauthorized"
    "unavailable"
}

pub(super) fn all() -> Vec<Scenario> {
    let read = |(name, text): &(&str, &str)| {
        // They are compiled in, and a test has read them.
        Scenario::parse(name, &format!("{name}.toml"), text)
            .unwrap_or_else(|error| panic!("the built-in scenario `{name}` cannot be read: {error:?}"))
    };
    ALL.iter().map(read).collect()
}
